# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# farlane in guest 2, by this guest's own libibverbs and rxe, which to it are hardware: the target under test, and a host for
# Linux's nvmet-rdma in guest 1. Same functions as farlane.sh.
. "$L/target/farlane.sh"
t_has="compare verify copy wz resv logs features connections"
t_addr=10.77.0.1$N t_addr6=fd77::1$N t_dev="?dev=hardware"
t_more=(--buffers 32M)             # all of which hardware pins
t_run=/tmp t_ns3=/dev/ram0 t_ns4=/dev/ram1 t_files1=/dev/ram2
fl_start() { # the program and its libraries out of the run's folder
  mkdir -p /tmp/fl; cp "$L"/fl/* /tmp/fl/
  FARLANE=/tmp/fl/farlane; export LD_LIBRARY_PATH=/tmp/fl
  rxe_up; modprobe brd rd_nr=3 rd_size=65536
}
eval "farlane_$(declare -f t_start)"
t_start() { fl_start && farlane_t_start; }
t_mtu() { ip link set eth0 mtu "$1"; }
t_hw_qps() { rdma resource show qp | grep 'type RC ' | grep -c 'comm farlane' || :; }
t_check() { (set -eu -o pipefail; . "$L/checks/nvmet-rdma.sh"; "check_${1//-/_}"); }
t_complaints() { complaints; }
t_tax() { # what each way costs, with this kernel's own target among them, on a block device
  modprobe -a nvmet nvmet-tcp configfs; [ -d /sys/kernel/config/nvmet ] || mount -t configfs config /sys/kernel/config
  "$FARLANE" tax file:/dev/ram2 --size 16M --seconds 0.3 --rounds 1 --json >"$L/tax.json" || return 1
  [ -z "$(ls /sys/kernel/config/nvmet/subsystems /sys/kernel/config/nvmet/ports | grep -v :)" ] || { echo "nvmet is left set up"; return 1; }
}
