# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# nvmet's passthru of QEMU's emulated NVMe device, in guest 2: has the commands that nvmet itself has not.
. "$L/target/nvmet.sh"
t_has="compare verify copy wz" t_lax=1
t_start() {
  local i=0 s=$C/subsystems/$sub
  modprobe -a nvme nvmet "nvmet-$TR" configfs; [ -d $C ] || mount -t configfs config /sys/kernel/config
  while [ ! -b /dev/nvme0n4 ] && [ $i -lt 100 ]; do sleep .1; i=$((i + 1)); done
  mkdir "$s"; echo 1 >"$s/attr_allow_any_host"
  echo -n /dev/nvme0 >"$s/passthru/device_path"; echo 1 >"$s/passthru/enable"
  t_port 1 $t_addr ipv4 4420 "$sub"; t_port 4 $t_addr6 ipv6 4420 "$sub"
}
