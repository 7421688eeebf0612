/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The best split of the spare. It is where a little more of it would save every group as much. Let
 * w be a group's writes, n its blocks and v the part that is valid when it is cleaned. Then w / n /
 * ((1 - v) / v + ln v) is the same for all. Both equations are solved by halving.
 */
#include "simulator/oracle.h"

#include <math.h>

#define STEPS	 100
#define V_LEAST	 1e-12
#define V_MOST	 (1 - 1e-9)
#define GAIN_LOG 40.0 /* what is saved per block lies within e^±GAIN_LOG */

/* Returns the v at which a falling function passes `value`. */
static double solve(double (*falling)(double v), double value)
{
	double low = V_LEAST, high = V_MOST, middle;

	for (int i = 0; i < STEPS; i++) {
		middle = (low + high) / 2;
		if (falling(middle) > value)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Places per valid block. */
static double places(double v)
{
	return -log(v) / (1 - v);
}

static double slack(double v)
{
	return (1 - v) / v + log(v);
}

/* Gives each group the spare at which one block more would save `gain`; returns the sum. */
static double give_by_gain(struct oracle_group *groups, unsigned nr, double gain)
{
	double sum = 0;

	for (unsigned i = 0; i < nr; i++) {
		groups[i].spare =
			groups[i].blocks *
			(places(solve(slack, groups[i].writes / groups[i].blocks / gain)) - 1);
		sum += groups[i].spare;
	}
	return sum;
}

double oracle_split(struct oracle_group *groups, unsigned nr, double spare)
{
	double low = -GAIN_LOG, high = GAIN_LOG, middle, amplification = 0;

	for (int i = 0; i < STEPS; i++) {
		middle = (low + high) / 2;
		if (give_by_gain(groups, nr, exp(middle)) > spare)
			low = middle;
		else
			high = middle;
	}
	for (unsigned i = 0; i < nr; i++)
		amplification +=
			groups[i].writes / (1 - solve(places, (groups[i].blocks + groups[i].spare) /
								      groups[i].blocks));
	return amplification;
}
