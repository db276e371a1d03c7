# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# The target that host checks are proved against: Linux's nvmet, in a guest. Same functions as farlane.sh.
C=/sys/kernel/config/nvmet
# what the checks may ask for; nvmet has none of: compare verify copy wz resv logs features connections
t_has=" " t_lax=1    # lax: statuses that nvmet gives where the specification says otherwise
t_addr=10.77.0.1$N t_addr6=fd77::1$N
blk() { # NSID: what that namespace stands on (odd ones: blocks of 512, even ones: of 4096)
  case $1 in 1) echo /dev/ram0;; 3) echo /dev/ram1;; *) echo "/tmp/ns$1";; esac
}
t_ns() { # SUBSYSTEM NSID BACKING
  local n=$C/subsystems/$1/namespaces/$2
  mkdir -p "$n"; [ -b "$3" ] || echo 1 >"$n/buffered_io"
  echo -n "$3" >"$n/device_path"; echo 1 >"$n/enable"
}
t_port() { # ID ADDRESS FAMILY SERVICE SUBSYSTEM
  local p=$C/ports/$1
  mkdir "$p"; echo "$3" >"$p/addr_adrfam"; echo "$TR" >"$p/addr_trtype"; echo "$2" >"$p/addr_traddr"; echo "$4" >"$p/addr_trsvcid"
  ln -s "$C/subsystems/$5" "$p/subsystems/$5"
}
t_start() { # all of it: the main subsystem, one with files only, one with a guest list
  local i
  [ "$TR" = tcp ] || rxe_up; modprobe -a nvmet "nvmet-$TR" configfs; [ -d $C ] || mount -t configfs config /sys/kernel/config
  modprobe brd rd_nr=2 rd_size=65536
  for i in "$sub" "$sub-files" "$sub-guarded"; do mkdir -p "$C/subsystems/$i"; done
  echo 1 >"$C/subsystems/$sub/attr_allow_any_host"; echo 1 >"$C/subsystems/$sub-files/attr_allow_any_host"
  for i in 2 4 5; do truncate -s 64M "$(blk $i)"; done
  for i in 1 2 3 4; do t_ns "$sub" $i "$(blk $i)"; done
  truncate -s 64M /tmp/files1; t_ns "$sub-files" 1 /tmp/files1
  truncate -s 16M /tmp/guarded1; t_ns "$sub-guarded" 1 /tmp/guarded1
  mkdir "$C/hosts/nqn.2026-01.org.example:host-ok"
  ln -s "$C/hosts/nqn.2026-01.org.example:host-ok" "$C/subsystems/$sub-guarded/allowed_hosts/"
  t_port 1 $t_addr ipv4 4420 "$sub"; t_port 2 $t_addr ipv4 4421 "$sub-files"; t_port 3 $t_addr ipv4 4422 "$sub-guarded"
  t_port 4 $t_addr6 ipv6 4420 "$sub"
}
t_files_kill() { rm "$C/ports/2/subsystems/$sub-files"; }    # the nearest that nvmet has to a death
t_files_start() { ln -s "$C/subsystems/$sub-files" "$C/ports/2/subsystems/"; }
t_ns_add() { truncate -s "$2" "$(blk "$1")"; t_ns "$sub" "$1" "$(blk "$1")"; }     # NSID BYTES
t_ns_resize() { truncate -s "$2" "$(blk "$1")"; echo 1 >"$C/subsystems/$sub/namespaces/$1/revalidate_size"; }
t_ns_remove() { echo 0 >"$C/subsystems/$sub/namespaces/$1/enable"; rmdir "$C/subsystems/$sub/namespaces/$1"; }
t_mtu() { ip link set eth0 mtu "$1"; }
t_netem() { # WORDS: what tc's netem does to packets that leave the guest; none: nothing
  tc qdisc del dev eth0 root 2>/dev/null || :
  [ $# = 0 ] || tc qdisc add dev eth0 root netem limit 10000 "$@"
}
t_connections() { rdma resource show qp 2>/dev/null | grep -c 'type RC ' || :; }
t_stop() { :; }
t_log() { dmesg | grep nvmet | tail -"${1:-20}"; }
t_complaints() { complaints; }
