#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lab.sh: boot one or two small Linux guests under QEMU and run a script in each. No KVM is needed.
# Everything of a run lives in namespaces of its own (network, processes), so that nothing stays behind,
# however the run ends, and any number of runs go side by side.
set -eu -o pipefail
ME=$(readlink -f "$0"); HERE=${ME%/*}

usage() { cat <<'U'
lab.sh kernel DIR DEB...    take what guests need of kernel packages: DIR/vmlinuz, DIR/modules, DIR/version
lab.sh image DIR OUT        make OUT/vmlinuz and OUT/initrd of DIR and of this machine's programs
lab.sh run [opts] [VAR=VALUE...]     exit status: the first non-zero one of guests and host script
   -i OUT     image of both guests (or of guest 1, with -I OUT2 for guest 2)
   -1 SCRIPT  script for guest 1 (10.77.0.11)   -2 SCRIPT  for guest 2 (10.77.0.12)
   -H SCRIPT  run on this machine in the lab's network namespace (10.77.0.1); ended with the guests, if any
   -d DIR     folder shared with the guests as /lab (default: a new one, removed)
   -p         record each guest's packets: DIR/N.pcap
   -u MTU     of bridge, taps and guests (default 1500)
   -t SEC     give up after SEC (default 300)   -R MB  memory (default 640)   -c CPUS (default 1)
   -q ARGS    more QEMU arguments for guest 1   -Q ARGS  for guest 2
   -v         also show the consoles
LAB_ACCEL     what QEMU runs guests with (default: tcg)
U
exit 2; }
die() { echo "lab.sh: $*" >&2; exit 1; }

MODS="virtio_pci virtio_net 9p 9pnet_virtio brd null_blk loop ext4 nvme nvme-tcp nvmet nvmet-tcp
 crc32_generic crc32c_generic crc32c_intel libcrc32c
 rdma_rxe ib_uverbs rdma_ucm ib_umad nvme-rdma nvmet-rdma sch_netem"
PROGS="nvme ip mke2fs e2fsck dumpe2fs fio jq kmod blkdiscard bash sha256sum dd
 rdma tc ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong rping ib_write_bw ib_write_lat
 ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_atomic_bw ib_atomic_lat"
FILES="/etc/libibverbs.d/rxe.driver /usr/lib/*/libibverbs/librxe-rdmav*.so"

cmd_kernel() {
  [ $# -ge 2 ] || usage
  local dir=$1 tmp v m f; shift
  tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
  for f; do dpkg-deb -x "$f" "$tmp"; done
  [ -e "$tmp/lib" ] || ln -s usr/lib "$tmp/lib"
  v=$(ls "$tmp/lib/modules"); depmod -b "$tmp" "$v"
  rm -rf "$dir"; mkdir -p "$dir/modules"
  for m in $MODS; do modprobe -d "$tmp" -S "$v" --show-depends "$m" 2>/dev/null || :; done |
    sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u |
    while read -r f; do
      case $f in *.xz) xz -dc "$f" >"$dir/modules/$(basename "$f" .xz)";; *) cp "$f" "$dir/modules/";; esac
    done
  cp "$tmp/lib/modules/$v"/modules.builtin* "$dir/modules/"
  for f in "$tmp/boot/vmlinuz-$v" "$tmp/lib/modules/$v/vmlinuz"; do [ ! -e "$f" ] || cp "$f" "$dir/vmlinuz"; done
  [ -s "$dir/vmlinuz" ] || die "no vmlinuz in $*"
  echo "$v" >"$dir/version"
  rm -rf "$tmp"; trap - EXIT
}

cmd_image() {
  [ $# = 2 ] || usage
  local k=$1 out=$2 r v f p m
  v=$(cat "$k/version"); r=$(mktemp -d); trap 'rm -rf "$r"' EXIT
  mkdir -p "$out" "$r"/{proc,sys,dev,tmp,run,lab,root,etc,bb,mnt,usr/{bin,lib,lib64},var/{run,tmp}} "$r/usr/lib/modules/$v"
  ln -s usr/bin "$r/bin"; ln -s usr/bin "$r/sbin"; ln -s bin "$r/usr/sbin"
  ln -s usr/lib "$r/lib"; ln -s usr/lib64 "$r/lib64"
  cp "$k"/modules/* "$r/lib/modules/$v/"; depmod -b "$r" "$v" 2>/dev/null
  cp "$(command -v busybox)" "$r/bin/busybox"
  for p in $PROGS; do
    f=$(command -v "$p") || f=$(command -v "/sbin/$p") || die "no $p on this machine"
    cp -L "$f" "$r/usr/bin/"; echo "$f"
  done >"$r/.elf"
  for f in $FILES; do
    [ -e "$f" ] || die "no $f on this machine"
    mkdir -p "$r${f%/*}"; cp -L "$f" "$r$f"; echo "$f"
  done >>"$r/.elf"
  for p in modprobe insmod rmmod lsmod modinfo; do ln -sf kmod "$r/usr/bin/$p"; done
  ln -s mke2fs "$r/usr/bin/mkfs.ext4"; ln -s e2fsck "$r/usr/bin/fsck.ext4"
  [ ! -e /etc/mke2fs.conf ] || cp /etc/mke2fs.conf "$r/etc/"
  while read -r f; do ldd "$f" 2>/dev/null || :; done <"$r/.elf" | grep -o '/[^ ]*' | sort -u >"$r/.libs"
  while read -r f; do mkdir -p "$r${f%/*}"; cp -L "$f" "$r$f"; done <"$r/.libs"; rm "$r/.elf" "$r/.libs"
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$r/etc/passwd"; printf 'root:x:0:\n' >"$r/etc/group"
  printf '127.0.0.1 localhost\n10.77.0.1 host\n10.77.0.11 g1\n10.77.0.12 g2\n' >"$r/etc/hosts"
  printf 'passwd: files\ngroup: files\nhosts: files\n' >"$r/etc/nsswitch.conf"
  ln -s /proc/mounts "$r/etc/mtab"
  cp "$HERE/init" "$r/init"; chmod 755 "$r/init"; ln -s busybox "$r/bin/sh"
  (cd "$r" && find . | cpio -o -H newc --quiet) >"$out/initrd"
  cp "$k/vmlinuz" "$out/vmlinuz"; cp "$k/version" "$out/version"
  rm -rf "$r"; trap - EXIT
}

cmd_run() { # the outer half: namespaces; the inner half runs as their first process
  local un=(unshare --net --pid --mount-proc --fork --kill-child)
  [ "$(id -u)" = 0 ] || un+=(--user --map-root-user)
  local child r=0
  "${un[@]}" "$ME" inner "$@" </dev/null & child=$!
  trap 'kill -9 $child 2>/dev/null; wait $child 2>/dev/null; exit 130' INT TERM HUP
  wait $child || r=$?
  return $r
}

guest_args() { # N IMAGE: fill in q
  local n=$1 i=$2
  q=(qemu-system-x86_64 -M q35 -cpu max -smp "$cpus" -m "$mem" -nodefaults -display none -no-reboot
    -kernel "$i/vmlinuz" -initrd "$i/initrd" -serial "file:$dir/$n.console" -device virtio-rng-pci
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr audit=0 apparmor=0 no_timer_check tsc=reliable${tsc:+ tsc_early_khz=$tsc} lab.n=$n"
    -fsdev "local,id=lab,path=$dir,security_model=none,multidevs=remap" -device virtio-9p-pci,fsdev=lab,mount_tag=lab
    -netdev "tap,id=n0,ifname=tap$n,script=no,downscript=no,vnet_hdr=off"
    -device "virtio-net-pci,netdev=n0,mac=52:54:00:77:00:1$n,host_mtu=$mtu")
  case ${LAB_ACCEL:-tcg} in tcg) q+=(-accel "tcg,thread=multi,tb-size=256");; *) q+=(-accel "$LAB_ACCEL");; esac
  [ ! "$pcap" ] || q+=(-object "filter-dump,id=f0,netdev=n0,file=$dir/$n.pcap,maxlen=65536")
}

cmd_inner() {
  local img='' img2='' dir='' pcap='' mtu=1500 secs=300 mem=640 cpus=1 verbose='' host='' q=()
  local o n rc=0 r i; local -A script=() qargs=([1]='' [2]='') pid=()
  while getopts i:I:1:2:H:d:pu:t:R:c:q:Q:v o; do case $o in
    i) img=$OPTARG;; I) img2=$OPTARG;; 1|2) script[$o]=$OPTARG;; H) host=$OPTARG;; d) dir=$OPTARG;;
    p) pcap=1;; u) mtu=$OPTARG;; t) secs=$OPTARG;; R) mem=$OPTARG;; c) cpus=$OPTARG;;
    q) qargs[1]=$OPTARG;; Q) qargs[2]=$OPTARG;; v) verbose=1;; *) usage;; esac; done
  shift $((OPTIND - 1)); [ "$img$host" ] || usage
  for o in "$@"; do [[ $o =~ ^[A-Za-z_][A-Za-z_0-9]*= ]] || die "$o is no VAR=VALUE (options come first)"; done
  local tsc=; [ "$(uname -m)" != x86_64 ] || tsc=$(python3 "$HERE/tsc.py" 2>/dev/null) || tsc=
  local guests=; [ ${#script[@]} = 0 ] || guests=$(printf '%s\n' "${!script[@]}" | sort)
  # shellcheck disable=SC2064
  [ "$dir" ] || { dir=$(mktemp -d); trap "rm -rf '$dir'" EXIT; }
  mkdir -p "$dir"; dir=$(readlink -f "$dir")
  rm -f "$dir"/[12H].{sh,out,rc,boot,console,pcap,dmesg} "$dir"/{env,asked,sig.*,ask.*,answer.*}
  for o in "$@"; do printf '%s=%q\nexport %s\n' "${o%%=*}" "${o#*=}" "${o%%=*}"; done >"$dir/env"
  cp "$HERE/guest.sh" "$dir/guest.sh"

  ip link set lo up
  if [ "$guests" ]; then
    ip link add br0 type bridge; ip link set br0 mtu "$mtu" address 52:54:00:77:00:01 up
    ip addr add 10.77.0.1/24 dev br0
    ip addr add fd77::1/64 dev br0 nodad 2>/dev/null || :
  fi
  for n in $guests; do
    cp "${script[$n]}" "$dir/$n.sh"
    i=$img; [ "$n" != 2 ] || [ ! "$img2" ] || i=$img2
    ip tuntap add "tap$n" mode tap; ip link set "tap$n" mtu "$mtu" master br0 up
    guest_args "$n" "$i"
    # shellcheck disable=SC2206
    q+=(${qargs[$n]})
    timeout "$secs" "${q[@]}" >"$dir/$n.qemu" 2>&1 </dev/null & pid[$n]=$!
  done
  if [ "$host" ]; then
    cp "$host" "$dir/H.sh"
    (set -a; . "$dir/env"; LAB=$dir; cd "$dir"; exec timeout "$secs" bash -c '. ./guest.sh; . ./H.sh' >"$dir/H.out" 2>&1 </dev/null) & pid[H]=$!
  fi
  for n in $guests; do
    wait "${pid[$n]}" || :
    r=$(cat "$dir/$n.rc" 2>/dev/null || echo 124); [ "$rc" != 0 ] || rc=$r
  done
  if [ "$host" ]; then
    [ ! "$guests" ] || kill "${pid[H]}" 2>/dev/null || :; r=0; wait "${pid[H]}" || r=$?
    [ "$r" = 143 ] || [ "$r" = 124 ] || [ "$rc" != 0 ] || rc=$r
  fi
  for n in $guests ${host:+H}; do
    echo "=== $n: status $(cat "$dir/$n.rc" 2>/dev/null || echo -), first command after $(cat "$dir/$n.boot" 2>/dev/null || echo -) s"
    cat "$dir/$n.out" 2>/dev/null || tail -20 "$dir/$n.console" "$dir/$n.qemu" 2>/dev/null || :
    [ ! "$verbose" ] || [ ! -e "$dir/$n.console" ] || { echo "--- console $n"; cat "$dir/$n.console"; }
    [ ! -s "$dir/$n.qemu" ] || grep -v "doesn't support requested feature" "$dir/$n.qemu" || :
  done
  return "$rc"
}

[ $# -ge 1 ] || usage
c=$1; shift
case $c in kernel|image|run|inner) "cmd_$c" "$@";; *) usage;; esac
