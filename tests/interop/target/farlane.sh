# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# The target under test: farlane serve on this machine, in the lab's network namespace. Same functions as nvmet.sh.
. "$L/checks/capture.sh"
t_has="compare verify copy wz resv logs features connections capture" t_lax=
t_addr=10.77.0.1 t_addr6=fd77::1
t_run=$L                          # where sockets can be
t_more=()                         # options of each serve
t_dev=                            # RDMA: ?dev=NAME
t_ns3=$L/ns3,size=64M t_ns4=$L/ns4,size=64M t_files1=$L/files1,size=64M
serve() { # NAME ARGUMENTS...: start one, wait until it listens; sets pid_NAME
  local name=$1 i=0; shift
  "$FARLANE" serve --control "$t_run/$name.sock" --ready-fd 5 "${t_more[@]}" "$@" 5>"$t_run/$name.ready" >>"$L/$name.serve" 2>&1 &
  printf -v "pid_$name" %s $!
  while [ ! -s "$t_run/$name.ready" ]; do
    i=$((i + 1)); kill -0 $! 2>/dev/null && [ $i -lt 100 ] || { echo "farlane serve did not start:"; tail -5 "$L/$name.serve"; return 1; }
    sleep 0.05
  done
}
ctl() { "$FARLANE" ctl --control "$t_run/main.sock" "$@"; }
t_start() {
  [ -x "$FARLANE" ] || { echo "no $FARLANE"; return 1; }
  serve main --nqn "$sub" --listen "$TR://$t_addr:4420$t_dev" --listen "$TR://[$t_addr6]:4420$t_dev" --ns ram:64M,bs=512 --ns ram:64M,bs=4096 \
    --ns "file:$t_ns3,bs=512" --ns "file:$t_ns4,bs=4096" || return 1
  t_files_start || return 1
  serve guarded --nqn "$sub-guarded" --listen "$TR://$t_addr:4422$t_dev" --ns ram:16M --host nqn.2026-01.org.example:host-ok
}
t_stop() { local p; grep -E "^Udp6?:" /proc/net/snmp /proc/net/snmp6 >"$L/udp" 2>/dev/null; for p in $pid_main $pid_files $pid_guarded; do kill "$p" 2>/dev/null; done; wait "$pid_main" 2>/dev/null; }
t_files_kill() { kill -9 "$pid_files"; wait "$pid_files" 2>/dev/null; return 0; }
t_files_start() { serve files --nqn "$sub-files" --listen "$TR://$t_addr:4421$t_dev" --ns "file:$t_files1"; }
t_ns_add() { ctl ns add "$sub" "ram:$2" --nsid "$1"; }        # NSID BYTES
t_ns_resize() { ctl ns resize "$sub" "$1" "$2"; }
t_ns_remove() { ctl ns rm "$sub" "$1"; }
t_connections() { ctl --json connections | jq '[.controllers[].connections[]] | length'; }
t_mtu() { ip link set tap1 mtu "$1"; ip link set br0 mtu "$1"; }
t_capture_start() { case $TR in tcp) capture_start "$L/capture.pcap" br0;; *) capture_start "$L/capture.pcap" tap1 "udp port 4791";; esac; }
t_capture_stop() {
  capture_stop
  case $TR in tcp) dissect "$L/capture.pcap" 4420;; *) dissect_rdma "$L/capture.pcap" $t_addr 10.77.0.11;; esac >"$L/capture.bad"
  cat "$L/capture.bad"; [ ! -s "$L/capture.bad" ]
}
t_digests() { digests_seen "$L/capture.pcap"; }
t_log() { tail -"${1:-20}" "$L/main.serve"; }
