# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Linux's rxe in guest 1, with rdma-core's own programs. The checks, which run on the host side, ask for these functions.
t_addr=10.77.0.11 t_addr6=fd77::11 t_has=" "
t_start() {
  modprobe -a ib_umad sch_netem; rxe_up
  until_true 5 t_gid 4 && until_true 5 t_gid 6
}
t_gid() { # 4|6: the index of that address among the GIDs
  local re='^::ffff:' f; [ "$1" = 4 ] || re='^fd77:'
  ibv_devinfo -v -d rxe0 | sed -n 's/^.*GID\[ *\([0-9]*\)\]:[[:space:]]*\([0-9a-f:.]*\).*/\2 \1/p' | grep -E "$re" | cut -d' ' -f2 | grep .
}
t_mtu() { ip link set eth0 mtu "$1"; }
t_netem() { # WORDS: what tc's netem does to packets that leave the guest; none: nothing
  tc qdisc del dev eth0 root 2>/dev/null || :
  [ $# = 0 ] || tc qdisc add dev eth0 root netem limit 10000 "$@"
}
t_listens() { # by TCP for what exchanges addresses so, else by the connection manager
  grep -qE '^ *[0-9]+: [0-9A-F]+:4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 -h || rdma resource show cm_id 2>/dev/null | grep -q 'state LISTEN'
}
t_serve() { # COMMAND...: start it, wait until a client can come
  timeout -k 1 "$LIMIT_ONE" "$@" >/tmp/served 2>&1 </dev/null & served=$!
  until_true 30 t_listens || { echo "not listening: $*"; cat /tmp/served; return 1; }
}
t_served() { # its output and status, when it has ended
  local r=0
  wait "$served" || r=$?
  cat /tmp/served; return $r
}
t_end() { # whatever it is doing; tells what it had got to
  rdma resource show cm_id; kill "$served"; wait "$served"; cat /tmp/served; return 0
}
t_run() { timeout -k 1 "$LIMIT_ONE" "$@" </dev/null; }
t_complaints() { complaints; }
LIMIT_ONE=60
t_stop() { :; }
