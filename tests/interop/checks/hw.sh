# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# Guest 1: a stock Linux host, and Linux's nvmet-rdma, against farlane in guest 2.
. "$L/target/nvmet.sh"
t_start
. "$L/checks/host-rdma.sh"
CYCLES=40 ASK_LIMIT=110
after_check() { complaints; ask t_complaints || :; }      # of both kernels
eval "tcp_$(declare -f check_restart_load)"
check_restart_load() { # who is killed while the kernel pins its memory; the host asks for the log as it dies
  log_ok 'Unable to pin memory region err = -4'; log_ok 'Failed to get ANA log: -4'
  tcp_check_restart_load
}
check_hardware() {
  connect -i 2
  want "queue pairs of farlane in its kernel" "$(ask t_hw_qps)" 3
  want "connections that it tells of" "$(ask t_connections)" 3
  disconnect
  until_true 3 no_qps || fail "queue pairs are left: $(ask t_hw_qps)"
}
no_qps() { [ "$(ask t_hw_qps)" = 0 ]; }
check_tax() { # the kernel's target is one of the ways, in a guest whose kernel has it; fio agrees with us on the device itself
  ask t_tax || fail "in guest 2"
  jq -r '.paths[] | "\(.key): \(.not_measured // "\(.mean_us.median) us, \(.iops.median) IOPS")"' "$L/tax.json"
  for n in local rdma-hardware tcp nvmet fio-local; do
    want_re "the row $n" "$(jq -r ".paths[] | select(.key == \"$n\") | .not_measured // .iops.median" "$L/tax.json")" '^[0-9.]+$'
  done
}
for n in discover info read-write blocks-4096 queues copy bench ipv6 refused; do
  eval "check_nvmet_${n//-/_}() { ask t_check $n || fail 'in guest 2'; }"
done
