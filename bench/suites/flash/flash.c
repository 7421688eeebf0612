/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `flash`: the durable tier on this machine's storage, without cluster or network. */
#include "flash.h"

static const struct bench_stage *const stages[] = {
	&flash_device_stage, &flash_layer_stage,	 &flash_recovery_stage,
	&flash_start_stage,  &flash_amplification_stage,
};

const struct bench_suite bench_suite_flash = {
	.name = "flash",
	.summary = "the durable tier: device, layer and recovery, against fio; write amplification",
	.stages = stages,
	.nr_stages = NR_ROWS(stages),
};
