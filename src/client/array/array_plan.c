/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes plans; see array_plan.h. One counter goes over the units that have some of the part, another over the pieces of a unit's share. */
#include "client/array/array_plan.h"

/* Counts the records of a dimension that are in the unit of the one that the share begins with. */
static void find_share(struct array_plan *plan, unsigned i)
{
	const struct array_slab *slab = &plan->slab;
	const uint64_t unit = plan->form->unit[i];
	const uint64_t begin = slab->start[i] + plan->first[i] * slab->stride[i];
	const uint64_t nr = (unit - begin % unit - 1) / slab->stride[i] + 1;
	const uint64_t left = slab->count[i] - plan->first[i];

	plan->share[i] = nr < left ? nr : left;
}

/* Returns how much further in the array the next record of a dimension is, in one unit. */
static uint64_t step_of(const struct array_plan *plan, unsigned i)
{
	return plan->slab.stride[i] * plan->form->inner[i];
}

/* Finds which dimensions of a share lie together, the fastest first. */
static void find_length(struct array_plan *plan)
{
	plan->length = plan->form->record;
	plan->nr_outside = plan->form->nr;
	for (; plan->nr_outside > 0; plan->nr_outside--) {
		const unsigned i = plan->nr_outside - 1;

		if (plan->share[i] == 1)
			continue;
		if (step_of(plan, i) != plan->length ||
		    plan->slab.memory[i] != (int64_t)plan->length)
			break;
		plan->length *= plan->share[i];
	}
}

static void begin_share(struct array_plan *plan)
{
	const struct array_form *form = plan->form;
	const struct array_slab *slab = &plan->slab;

	plan->offset = AFAR_ARRAY_HEADER_BYTES;
	plan->memory = slab->base;
	for (unsigned i = 0; i < form->nr; i++) {
		const uint64_t begin = slab->start[i] + plan->first[i] * slab->stride[i];

		plan->offset += begin / form->unit[i] * form->outer[i] +
				begin % form->unit[i] * form->inner[i];
		plan->memory += (int64_t)plan->first[i] * slab->memory[i];
		plan->at[i] = 0;
	}
	find_length(plan);
}

void array_plan_begin(struct array_plan *plan, const struct array_form *form,
		      const struct array_slab *slab)
{
	*plan = (struct array_plan){.form = form, .slab = *slab, .is_done = slab->nr_records == 0};
	if (plan->is_done)
		return;
	for (unsigned i = 0; i < form->nr; i++)
		find_share(plan, i);
	begin_share(plan);
}

static void next_share(struct array_plan *plan)
{
	unsigned i = plan->form->nr;

	while (i-- > 0) {
		plan->first[i] += plan->share[i];
		if (plan->first[i] < plan->slab.count[i])
			break;
		plan->first[i] = 0;
		find_share(plan, i);
		if (i == 0) {
			plan->is_done = true;
			return;
		}
	}
	find_share(plan, i);
	begin_share(plan);
}

static void next_piece(struct array_plan *plan)
{
	for (unsigned i = plan->nr_outside; i-- > 0;) {
		const uint64_t step = step_of(plan, i);

		if (++plan->at[i] < plan->share[i]) {
			plan->offset += step;
			plan->memory += plan->slab.memory[i];
			return;
		}
		plan->at[i] = 0;
		plan->offset -= (plan->share[i] - 1) * step;
		plan->memory -= (int64_t)(plan->share[i] - 1) * plan->slab.memory[i];
	}
	next_share(plan);
}

unsigned array_plan_next(struct array_plan *plan, struct array_piece *pieces, unsigned max)
{
	unsigned nr = 0;

	for (; nr < max && !plan->is_done; next_piece(plan))
		pieces[nr++] = (struct array_piece){plan->offset, plan->memory, plan->length};
	return nr;
}
