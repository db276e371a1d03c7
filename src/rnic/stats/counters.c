/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/stats/counters.h"

#define INFO(id, where, help) {#id, help},

const struct fl_counter_info fl_qp_counters[FL_NR_QP_COUNTERS] = {FL_QP_COUNTERS(INFO)};
const struct fl_counter_info fl_process_counters[FL_NR_PROCESS_COUNTERS] = {FL_PROCESS_COUNTERS(INFO)};
