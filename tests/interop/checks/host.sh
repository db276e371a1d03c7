# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# A stock Linux host with nvme-cli against the target under test. Runs in guest 1; the target is asked through `ask`.

[ "$TR" = tcp ] || rxe_up
modprobe "nvme-$TR"
hostnqn_ok=nqn.2026-01.org.example:host-ok
t_has() { [[ " $T_HAS " == *" $1 "* ]] || skip "this target has no $1"; }
nsdev() { # NSID [SECONDS]: the block device of that namespace, when it is there
  local i=0 b
  while [ $i -lt $((${2:-10} * 10)) ]; do
    i=$((i + 1))
    for b in /sys/block/nvme*n*; do
      [ "$(cat "$b/nsid" 2>/dev/null)" = "$1" ] && [ -b "/dev/${b##*/}" ] && { echo "/dev/${b##*/}"; return 0; }
    done
    sleep 0.1
  done
  echo "FAILED: no block device of namespace $1" >&2; return 1
}
ctrl() { # [NQN]: controller device that is connected to it
  local c
  for c in /sys/class/nvme/nvme*; do [ "$(cat "$c/subsysnqn" 2>/dev/null)" = "${1:-$sub}" ] && { echo "/dev/${c##*/}"; return 0; }; done
  return 1
}
state() { cat "/sys/class/nvme/${1##*/}/state" 2>/dev/null; }
fabric() { # COMMAND [OPTIONS]: nvme discover or connect to the main port
  local cmd=$1; shift
  nvme "$cmd" -t "$TR" -a "${ADDR:-$T_ADDR}" -s "${PORT:-4420}" ${KATO:+-k "$KATO"} "$@"
}
connect() { # [OPTIONS]: to the main subsystem; sets c (controller) and d (namespace 1)
  fabric connect -n "$sub" "$@"
  c=$(ctrl); d=$(nsdev 1)
}
disconnect() { nvme disconnect -n "${1:-$sub}" | grep -q ' 1 controller' || fail "disconnect did not end one controller"; }
clean_up() { # after each check, whatever became of it
  umount /mnt 2>/dev/null; nvme disconnect-all 2>/dev/null
  until_true 5 no_ctrl || echo "controllers left: $(ls /sys/class/nvme)"
  [ "$(cat /sys/module/nvme_core/parameters/multipath)" = Y ] || { modprobe -r "nvme-$TR" nvme-fabrics nvme nvme-core; modprobe nvme-core multipath=Y; modprobe "nvme-$TR"; }
  modprobe "nvme-$TR"
}
no_ctrl() { [ -z "$(ls /sys/class/nvme 2>/dev/null)" ]; }
pat() { # SEED BYTES: data that can be told apart, the same for the same seed
  awk -v s="$1" -v n=$((($2 + 63) / 64)) 'BEGIN{for(i=0;i<n;i++)printf "%-16s%47d\n",s,i}' | head -c "$2"
}
put() { # DEV LBA BLOCKS SEED: write by nvme-cli (blocks of BS, default 512)
  pat "$4" $(($3 * ${BS:-512})) >/tmp/put; nvme write "$1" -s "$2" -c $(($3 - 1)) -z $(($3 * ${BS:-512})) -d /tmp/put >/dev/null
}
same() { # DEV LBA BLOCKS SEED: read by nvme-cli, compare
  get "$1" "$2" "$3"; pat "$4" $(($3 * ${BS:-512})) | cmp - /tmp/got || fail "what was read at $2 is not what was written there"
}
get() { # DEV LBA BLOCKS: to /tmp/got (which nvme-cli would not cut to size)
  rm -f /tmp/got; nvme read "$1" -s "$2" -c $(($3 - 1)) -z $(($3 * ${BS:-512})) -d /tmp/got >/dev/null
}
zero() { # DEV LBA BLOCKS
  get "$1" "$2" "$3"; head -c $(($3 * ${BS:-512})) /dev/zero | cmp - /tmp/got || fail "blocks at $2 are not zero"
}
declare -A J
json() { # FILE: its plain members into J
  local k v
  J=()
  while IFS=$'\t' read -r k v; do J[$k]=$v; done < <(jq -r 'to_entries[] | select(.value | type == "number" or type == "string") | "\(.key)\t\(.value)"' "$1")
}
status_of() { # COMMAND...: the NVMe status that nvme-cli tells, without DNR and More; 0x0 when all was well
  local out st
  out=$("$@" 2>&1) && { echo 0x0; return 0; }
  st=$(grep -oiE '\(0x[0-9a-f]+\)' <<<"$out" | tail -1) && printf '0x%x\n' $(($(tr -d '()' <<<"$st") & 0x7ff)) || echo "none: $out"
}
digests=; [ "$TR" != tcp ] || digests="--hdr-digest --data-digest"      # RDMA has its own
lax() { [ -z "$T_LAX" ] || echo "|$1"; }   # a status that is right too for targets that are not so strict
want_status() { # REGEX OF STATUS COMMAND...
  local s want=$1; shift
  s=$(status_of "$@"); want_re "status of: $*" "$s" "^($want)\$"
}

check_discover() {
  fabric discover -o json >/tmp/j; cat /tmp/j
  jq -e --arg n "$sub" --arg a "$T_ADDR" --arg t "$TR" '.records[] | select(.subnqn == $n and .traddr == $a and .trsvcid == "4420" and
    .trtype == $t and .adrfam == "ipv4" and .subtype == "nvme subsystem")' /tmp/j >/dev/null || fail "the log has no right record of $sub"
  local re='sectype: none'; [ "$TR" = tcp ] || re='rdma_prtype: roce-v2'
  fabric discover | grep -q "$re" || fail "the log does not say '$re'"
  fabric discover -r | od -An -tx1 | head -40 || :
}

check_connect() {
  local n
  connect -i 1
  for n in 1 2 3 4; do nsdev $n; done
  want "size of namespace 1" "$(blockdev --getsize64 "$d")" $((64 << 20))
  want "blocks of namespace 1" "$(blockdev --getss "$d")" 512
  want "blocks of namespace 2" "$(blockdev --getss "$(nsdev 2)")" 4096
  want "state" "$(state "$c")" live
  put "$d" 0 8 a; same "$d" 0 8 a
  put "$d" 1000 128 b; same "$d" 1000 128 b; same "$d" 0 8 a
  disconnect
  until_true 3 no_ctrl || fail "the controller is still there"
}

check_digests() {
  connect -i 2 --hdr-digest --data-digest
  put "$d" 0 8 a; same "$d" 0 8 a
  put "$d" 64 256 b; same "$d" 64 256 b       # 128 KiB in the capsule
  dd if=/dev/urandom of=/tmp/rnd bs=1M count=8 2>/dev/null
  dd if=/tmp/rnd of="$d" bs=1M oflag=direct 2>/dev/null; dd if="$d" bs=1M count=8 iflag=direct 2>/dev/null | cmp - /tmp/rnd
  disconnect
  connect -i 1 --hdr-digest; put "$d" 0 8 c; same "$d" 0 8 c; disconnect
  connect -i 1 --data-digest; put "$d" 0 8 d; same "$d" 0 8 d; disconnect
}

check_queues() {
  local n
  connect -i 4
  n=$(cat "/sys/class/nvme/${c##*/}/queue_count"); want "queues with the admin queue" "$n" 5
  fio --name=q --filename="$d" --rw=randrw --bs=4k --size=4m --direct=1 --numjobs=4 --cpus_allowed=0-3 --cpus_allowed_policy=split \
    --thread --group_reporting --ioengine=psync --verify=crc32c --offset_increment=8m --minimal >/tmp/fio || { cat /tmp/fio; fail "fio found an error"; }
  disconnect
  connect -i 2 -W 2 -P 2
  want "queues with write and poll queues" "$(cat "/sys/class/nvme/${c##*/}/queue_count")" 7
  put "$d" 0 8 a; same "$d" 0 8 a
}

check_ipv6() {
  ADDR=$T_ADDR6
  fabric discover | grep -q "$sub" || fail "discovery over IPv6 does not name $sub"
  connect -i 1; put "$d" 0 8 six; same "$d" 0 8 six
}

tree() { # a tree to copy: 120 files of 0 to 200 KiB, folders, links
  [ -d /tmp/tree ] && return 0
  local i
  mkdir -p /tmp/tree/{a,b/c,d}; head -c 200000 /dev/urandom >/tmp/blob
  for i in $(seq 0 119); do head -c $(((i * i * 131) % 200000)) /tmp/blob >"/tmp/tree/$([ $((i % 3)) = 0 ] && echo a || { [ $((i % 3)) = 1 ] && echo b/c || echo d; })/f$i"; done
  ln -s ../a/f3 /tmp/tree/d/link; ln /tmp/tree/a/f6 /tmp/tree/b/hard
  (cd /tmp/tree && find . -type f | sort | xargs sha256sum >/tmp/tree.sums)
}
filesystem() { # NSID OPTIONS...: the whole story of a file system on that namespace
  local n=$1; shift
  tree; [ -z "$T_LAX" ] || log_ok 'Cmd\(0x8\)'
  connect "$@"; d=$(nsdev "$n")
  mke2fs -q -F -t ext4 "$d"; mount -t ext4 "$d" /mnt
  cp -a /tmp/tree /mnt/; (cd /mnt/tree && sha256sum -c --quiet /tmp/tree.sums)
  rm -r /mnt/tree/d; cp -a /tmp/tree/d /mnt/tree/; sync
  umount /mnt; e2fsck -f -n "$d"
  disconnect
  connect "$@"; d=$(nsdev "$n")
  mount -t ext4 "$d" /mnt; (cd /mnt/tree && sha256sum -c --quiet /tmp/tree.sums); umount /mnt
  e2fsck -f -n "$d"; disconnect
}
check_fs_ram_512() { filesystem 1 -i 1; }
check_fs_ram_4096() { filesystem 2 -i 1 $digests; }
check_fs_file_512() { filesystem 3 -i 4; }
check_fs_file_4096() { filesystem 4 -i 4 $digests; }

check_ns_add() {
  connect -i 1
  ask t_ns_add 5 $((16 << 20))
  d=$(nsdev 5 2) || fail "the new namespace is not there after 2 s"
  want "its size" "$(blockdev --getsize64 "$d")" $((16 << 20))
  BS=$(blockdev --getss "$d"); put "$d" 0 2 new; same "$d" 0 2 new
}
size_is() { [ "$(blockdev --getsize64 "$1")" = "$2" ]; }
check_ns_resize() {
  connect -i 1; d=$(nsdev 5)
  ask t_ns_resize 5 $((24 << 20))
  until_true 2 size_is "$d" $((24 << 20)) || fail "the host sees $(blockdev --getsize64 "$d") bytes 2 s after the resize"
  BS=$(blockdev --getss "$d"); put "$d" $(((20 << 20) / BS)) 2 tail; same "$d" $(((20 << 20) / BS)) 2 tail
}
gone() { ! [ -e "/sys/block/${1##*/}" ]; }
check_ns_remove() {
  connect -i 1; d=$(nsdev 5)
  ask t_ns_remove 5
  until_true 2 gone "$d" || fail "$d is still there 2 s after its removal"
  ! nvme list-ns "$c" | grep -q '0x5$' || fail "list-ns still names namespace 5"
  d=$(nsdev 1); put "$d" 0 8 on; same "$d" 0 8 on
}
check_changed_ns() {
  connect -i 1
  nvme changed-ns-list-log "$c" >/dev/null          # whatever is there: read, so cleared
  nvme set-feature "$c" -f 0xb -v 0; sleep 0.3      # events off, so that the kernel does not read the log before us
  ask t_ns_add 5 $((16 << 20)); sleep 0.3
  nvme changed-ns-list-log "$c" | tee /tmp/o; grep -qE '(^|[^0-9a-f])(0x)?5([^0-9a-f]|$)' /tmp/o || fail "the list does not name namespace 5"
  nvme get-log "$c" -i 4 -l 4096 -b | od -An -tx1 | head -2        # nvme-cli's own command retains the event, and so may the target the list
  nvme changed-ns-list-log "$c" | tee /tmp/o; ! grep -qE '0x5' /tmp/o || fail "the list was not cleared when it was read"
  nvme set-feature "$c" -f 0xb -v 0x900
  ask t_ns_remove 5; sleep 0.5
}

check_id_ctrl() {
  connect -i 1
  nvme id-ctrl "$c" -o json >/tmp/j; nvme id-ctrl "$c"; json /tmp/j
  f() { echo "${J[$1]:-}"; }
  want "subnqn" "$(f subnqn)" "$sub"
  want_re "sn" "$(f sn)" '[^ ]'; want_re "mn" "$(f mn)" '[^ ]'; want_re "fr" "$(f fr)" '[^ ]'
  want_num "nn" "$(f nn)" -ge 4
  [ "$(f mnan)" = 0 ] || want_num "mnan" "$(f mnan)" -le "$(f nn)"
  want_num "ver" "$(f ver)" -ge $((0x10300))
  want_num "kas" "$(f kas)" -gt 0
  want_num "cntlid" "$(f cntlid)" -gt 0
  want "cntrltype" "$(f cntrltype)" 1
  want_num "ioccsz" "$(f ioccsz)" -ge 4; want "iorcsz" "$(f iorcsz)" 1
  want_num "maxcmd" "$(f maxcmd)" -ge 32
  want "icdoff" "$(f icdoff)" 0
  want "sqes" "$(f sqes)" $((0x66)); want "cqes" "$(f cqes)" $((0x44))
  want "sgls: supported, in capsule, transport" $(($(f sgls) & 3)) 1
  want_num "sgls" "$(f sgls)" -gt 0
  want "oaes: namespace attribute notices" $(($(f oaes) >> 8 & 1)) 1
  want "oncs: write zeroes and dsm" $(($(f oncs) & 0xc)) 12
  want "cmic: several controllers" $(($(f cmic) >> 1 & 1)) 1
  [ $(($(f cmic) >> 3 & 1)) = 0 ] || { want_num "anagrpmax" "$(f anagrpmax)" -gt 0; want_num "nanagrpid" "$(f nanagrpid)" -gt 0; }
  [[ " $T_HAS " != *" compare "* ]] || want "oncs: compare" $(($(f oncs) & 1)) 1
  [[ " $T_HAS " != *" verify "* ]] || want "oncs: verify" $(($(f oncs) >> 7 & 1)) 1
  [[ " $T_HAS " != *" copy "* ]] || { want "oncs: copy" $(($(f oncs) >> 8 & 1)) 1; want "ocfs: format 0" $(($(f ocfs) & 1)) 1; }
  [[ " $T_HAS " != *" resv "* ]] || want "oncs: reservations" $(($(f oncs) >> 5 & 1)) 1
  want_status "0xb$(lax 0x0)" nvme id-ns "$c" -n 0xfffffffd
}
check_id_ns() {
  local n bs
  connect -i 1
  for n in 1 2; do
    nvme id-ns "$c" -n $n -o json >/tmp/j; nvme id-ns "$c" -n $n; json /tmp/j
    f() { echo "${J[$1]:-}"; }
    bs=$(jq '. as $o | .lbafs[$o.flbas % 16].ds | exp2 | round' /tmp/j)
    want "block size of namespace $n" "$bs" $((n == 1 ? 512 : 4096))
    want "bytes of namespace $n" $(($(f nsze) * bs)) $((64 << 20))
    want "ncap" "$(f ncap)" "$(f nsze)"; want_num "nuse" "$(f nuse)" -le "$(f nsze)"
    want_num "nlbaf" "$(f nlbaf)" -le 15
    want "nmic: shared" $(($(f nmic) & 1)) 1
  done
  want_status "0xb$(lax 0x0)" nvme admin-passthru "$c" -o 6 -n 0 --cdw10=0 -r -l 4096
  want_status "0x0|0xb" nvme id-ns "$c" -n 77     # not active, or not valid
}
check_ns_descs() {
  local n u
  connect -i 1
  for n in 1 2 3 4; do
    d=$(nsdev $n); nvme ns-descs "$c" -n $n | tee /tmp/o
    u=$(grep -oE '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}' /tmp/o)
    want_re "uuid of namespace $n" "$u" '[1-9a-f]'
    want "the kernel's uuid" "$(cat "/sys/block/${d##*/}/uuid")" "$u"; echo "$u" >>/tmp/uuids.$$
  done
  want "different uuids" "$(sort -u /tmp/uuids.$$ | wc -l)" 4; rm /tmp/uuids.$$
  want_status 0xb nvme ns-descs "$c" -n 77
}
check_list_ns() {
  connect -i 1
  want "list" "$(nvme list-ns "$c" -o json | jq -c '[.nsid_list[].nsid]')" '[1,2,3,4]'
  want "list from 2" "$(nvme list-ns "$c" -n 2 | grep -oE '0x[0-9a-f]+$' | tr '\n' ' ')" '0x2 0x3 0x4 '
  nvme list-ns "$c" -a | head -5 || :
  nvme list -o json | jq -e '.Devices | length >= 4' >/dev/null || fail "nvme list does not show four devices"
}
check_logs() {
  local id
  connect -i 1
  nvme smart-log "$c" -o json >/tmp/j; cat /tmp/j
  want "critical_warning" "$(jq -r .critical_warning /tmp/j)" 0
  put "$d" 0 8 a; same "$d" 0 8 a
  nvme smart-log "$c" -o json >/tmp/j2
  nvme fw-log "$c" | tee /tmp/o; grep -q 'afi' /tmp/o || fail "no firmware slot log"
  nvme error-log "$c" -e 2 | tee /tmp/o | head -20
  nvme effects-log "$c" -c 0 | tee /tmp/o | head -60; grep -q 'Read' /tmp/o || fail "effects log does not name Read"
  nvme ana-log "$c" | tee /tmp/o || fail "no ANA log"
  grep -q optimized /tmp/o || fail "no optimized ANA group"
  nvme get-log "$c" -i 2 -l 512 -b | od -An -tx1 -v | md5sum
  want_status '0x109|0x2' nvme get-log "$c" -i 0x7f -l 512
  [[ " $T_HAS " == *" logs "* ]] || return 0
  nvme supported-log-pages "$c" | tee /tmp/o
  want "a host wrote" "$(($(jq -r .host_write_commands /tmp/j2) > $(jq -r .host_write_commands /tmp/j)))" 1
  want "a host read" "$(($(jq -r .host_read_commands /tmp/j2) > $(jq -r .host_read_commands /tmp/j)))" 1
  nvme admin-passthru "$c" -o 0xc5 2>&1 || :
  nvme error-log "$c" -e 1 -o json | tee /tmp/j
  want_num "errors counted" "$(jq '.errors[0].error_count' /tmp/j)" -gt 0
  want "status of the newest error" $(($(jq '.errors[0].status_field' /tmp/j) & 0x7ff)) 1
}
feature() { nvme get-feature "$@" | grep -oE 'Current value: *(0x)?[0-9a-f]+' | grep -oE '(0x)?[0-9a-f]+$'; }
check_features() {
  local v
  connect -i 1 -k 7
  v=$(($(feature "$c" -f 7))); want_num "number of queues" $((v & 0xffff)) -ge 0
  v=$(($(feature "$c" -f 0xf))); want "keep-alive time-out" $v 7000
  v=$(feature "$c" -f 0xb); want "namespace attribute notices" $((v >> 8 & 1)) 1
  nvme set-feature "$c" -f 0xb -v 0x100; want "events after set" $(($(feature "$c" -f 0xb))) $((0x100))
  nvme set-feature "$c" -f 0xb -v "$v"; want "events after set back" $(($(feature "$c" -f 0xb))) $((v))
  nvme set-feature "$c" -f 0xf -v 9000; want "keep-alive time-out after set" $(($(feature "$c" -f 0xf))) 9000
  feature "$c" -f 6; nvme get-feature "$c" -f 0x81 -l 16 --cdw11=1 | tee /tmp/o
  want_status "0x2$(lax 0xf)" nvme get-feature "$c" -f 0x7f
  want_status "0x2|0xd|0x10e$(lax 0xf)" nvme set-feature "$c" -f 0x7f -v 1
  [[ " $T_HAS " == *" features "* ]] || return 0
  v=$(($(feature "$c" -f 5 -n 1))); echo "error recovery $v"
  v=$(status_of nvme set-feature "$c" -f 6 -v 0); want_re "status of write cache off" "$v" '^(0x0|0x10e)$'
  [ "$v" != 0x0 ] || { want "write cache off" $(($(feature "$c" -f 6))) 0; nvme set-feature "$c" -f 6 -v 1; }
  want "write cache" $(($(feature "$c" -f 6))) 1
  feature "$c" -f 1; feature "$c" -f 2; feature "$c" -f 4
  grep -q '00 00 00 00 00 00 40 00 80 00 00 00 00 00 00 11' /tmp/o || fail "host identifier is not ours"
  v=$(status_of nvme set-feature "$c" -f 7 -v 0x30003)     # the I/O queues are there already
  [[ $v == *'Permission denied'* ]] || want "status of set-feature 7" "$v" 0xc       # newer kernels do not let it through
}

check_read_write() {
  local n bs
  connect -i 2
  dd if=/dev/urandom of=/tmp/rnd bs=1M count=8 2>/dev/null
  for n in 1 2 3 4; do
    d=$(nsdev $n); bs=$(blockdev --getss "$d")
    for s in 1 3 16 17; do BS=$bs put "$d" 40 $s "n$n-$s"; BS=$bs same "$d" 40 $s "n$n-$s"; done
    for s in "$bs 33" "12288 20" "131072 8" "4194304 2"; do
      # shellcheck disable=SC2086
      set -- $s
      dd if=/tmp/rnd of="$d" bs=$1 count=$2 oflag=direct 2>/dev/null
      dd if="$d" bs=$1 count=$2 iflag=direct of=/tmp/got 2>/dev/null; want "bytes read" "$(stat -c %s /tmp/got)" $(($1 * $2))
      cmp -n $(($1 * $2)) /tmp/got /tmp/rnd
    done
    # the last block, and one beyond
    s=$(($(blockdev --getsize64 "$d") / bs)); BS=$bs put "$d" $((s - 1)) 1 last; BS=$bs same "$d" $((s - 1)) 1 last
    want_status "0x80$(lax '0x6|0x81')" nvme read "$d" -s $s -c 0 -z $bs
  done
}

check_compare() {
  t_has compare; connect -i 1
  put "$d" 0 8 a; cp /tmp/put /tmp/a
  want_status 0x0 nvme compare "$d" -s 0 -c 7 -z 4096 -d /tmp/a
  pat b 4096 >/tmp/b
  want_status 0x285 nvme compare "$d" -s 0 -c 7 -z 4096 -d /tmp/b
  head -c 4095 /tmp/a >/tmp/b; echo -n X >>/tmp/b      # the last byte alone
  want_status 0x285 nvme compare "$d" -s 0 -c 7 -z 4096 -d /tmp/b
  put "$d" 64 128 big; cp /tmp/put /tmp/b
  want_status 0x0 nvme compare "$d" -s 64 -c 127 -z 65536 -d /tmp/b
  same "$d" 0 8 a
}
check_write_zeroes() {
  local n
  [ -z "$T_LAX" ] || t_has wz
  connect -i 1
  log_ok 'Cmd\(0x8\)'
  for n in 1 2 3 4; do
    d=$(nsdev $n); BS=$(blockdev --getss "$d"); put "$d" 0 16 a; cp /tmp/put /tmp/a
    nvme write-zeroes "$d" -s 4 -c 3; zero "$d" 4 4
    get "$d" 0 4; cmp -n $((4 * BS)) /tmp/a /tmp/got
    get "$d" 8 8; tail -c $((8 * BS)) /tmp/a | cmp - /tmp/got
  done
  d=$(nsdev 1); blkdiscard -z -o 0 -l 1048576 "$d"; BS=512 zero "$d" 0 16   # the block layer's way
  want_status 0x80 nvme write-zeroes "$d" -s 0x7fffffff -c 0
}
check_dsm() {
  local n
  connect -i 1
  for n in 1 2 3 4; do
    d=$(nsdev $n); BS=$(blockdev --getss "$d"); put "$d" 0 24 a; cp /tmp/put /tmp/a
    nvme dsm "$d" -d -s 8,16 -b 4,2
    get "$d" 0 8; cmp -n $((8 * BS)) /tmp/a /tmp/got
    get "$d" 8 4       # old data or zeroes, all of it the one or the other
    head -c $((4 * BS)) /dev/zero | cmp -s - /tmp/got || tail -c +$((8 * BS + 1)) /tmp/a | head -c $((4 * BS)) | cmp - /tmp/got
  done
}
check_verify() {
  t_has verify; connect -i 1
  put "$d" 0 8 a; want_status 0x0 nvme verify "$d" -s 0 -c 7
  want_status 0x80 nvme verify "$d" -s $(($(blockdev --getsize64 "$d") / 512)) -c 0
}
check_copy() {
  t_has copy; connect -i 1
  put "$d" 0 4 a; put "$d" 20 2 b; put "$d" 100 8 old
  nvme copy "$d" --sdlba=100 --slbs=0,20 --blocks=3,1
  same "$d" 100 4 a; same "$d" 104 2 b
  get "$d" 106 2; pat old 4096 | tail -c 1024 | cmp - /tmp/got
  want_status 0x80 nvme copy "$d" --sdlba=$(($(blockdev --getsize64 "$d") / 512)) --slbs=0 --blocks=0
}
check_flush_fua() {
  local n
  connect -i 1
  for n in 1 3; do
    d=$(nsdev $n); put "$d" 0 8 a; nvme flush "$d"
    pat fua 4096 >/tmp/a; nvme write "$d" -s 16 -c 7 -z 4096 -d /tmp/a -f; same "$d" 16 8 fua
    dd if=/tmp/a of="$d" bs=4096 count=1 conv=fsync 2>/dev/null
  done
}
check_errors() {
  local n
  log_ok 'nvme.*(Invalid|invalid|error)'
  connect -i 1; pat x 4096 >/tmp/w
  n=$(($(blockdev --getsize64 "$d") / 512))
  want_status 0x1 nvme admin-passthru "$c" -o 0xc5
  want_status 0x1 nvme io-passthru "$d" -o 0x7d -n 1
  want_status "0x80$(lax '0x6|0x81')" nvme read "$d" -s $n -c 0 -z 512
  want_status "0x80$(lax '0x6|0x81')" nvme read "$d" -s $((n - 1)) -c 1 -z 1024
  want_status "0x80$(lax '0x6|0x2|0x81')" nvme write "$d" -s 0xffffffffffffffff -c 7 -z 4096 -d /tmp/w
  want_status "0x80$(lax '0x6|0x2|0x81')" nvme write "$d" -s 0xfffffffffffffff8 -c 7 -z 4096 -d /tmp/w
  want_status "0xb$(lax 0x0)" nvme admin-passthru "$c" -o 6 -n 0xfffffffe --cdw10=0 -r -l 4096   # I/O to other ids the kernel does not let through
  want_status 0x2 nvme admin-passthru "$c" -o 6 --cdw10=0xee -r -l 4096
  for o in 0 1 4 5 0xd 0x10 0x15 0x80 0x81; do      # what a fabrics controller does not have
    nvme admin-passthru "$c" -o $o -n 0 2>&1 | tail -1 || :
  done
  nvme get-property "$c" -o 8 | tee /tmp/o; nvme get-property "$c" -o 0x14; nvme get-property "$c" -o 0x1c
  want_status 0x2 nvme get-property "$c" -o 0x98
  want "state after all that" "$(state "$c")" live
  put "$d" 0 8 a; same "$d" 0 8 a
}

check_reset() {
  connect -i 2; put "$d" 0 8 a
  for _ in 1 2 3; do nvme reset "$c"; until_true 5 test "$(state "$c")" = live || :; want "state after reset" "$(state "$c")" live; done
  same "$d" 0 8 a; put "$d" 8 8 b; same "$d" 8 8 b
}
load() { # DEV SECONDS: fio that writes and checks, in the background; sets fio_pid
  fio --name=load --filename="$1" --rw=randwrite --bsrange=4k-32k --size=8m --direct=1 --ioengine=libaio --iodepth=8 \
    --verify=crc32c --do_verify=1 --verify_backlog=64 --time_based --runtime="$2" --max_latency=0 >/tmp/fio.out 2>&1 &
  fio_pid=$!
}
load_done() { wait $fio_pid || { cat /tmp/fio.out; fail "fio: wrong data or errors"; }; grep -E 'err=|READ:|WRITE:' /tmp/fio.out; }
check_reset_load() {
  log_ok 'failed to send request -32'   # the kernel's own, with its own target too (TARGET=nvmet): it shuts its sockets down while it still sends
  connect -i 2 $digests; load "$d" 8
  for _ in 1 2 3; do sleep 1.5; nvme reset "$c"; until_true 5 is_live "$c" || fail "not live again after a reset"; done
  load_done
}
is_live() { [ "$(state "$1")" = live ]; }
check_keep_alive() {
  connect -i 1 -k "${SHORT:-2}"; put "$d" 0 8 a
  local id; id=$(cat "/sys/class/nvme/${c##*/}/cntlid")
  sleep $((3 * ${SHORT:-2}))
  same "$d" 0 8 a
  want "state" "$(state "$c")" live; want "controller id: not reconnected" "$(cat "/sys/class/nvme/${c##*/}/cntlid")" "$id"
  dmesg | tail -5 | grep -i reconnect && fail "it reconnected" || :
}
check_cycles() {
  local i
  log_ok 'no available path|async page read|unable to read (RDB|partition)'   # the kernel reads partitions while we disconnect
  for i in $(seq "${CYCLES:-50}"); do      # as nvme-cli does it; every tenth by nvme-cli itself, which is slow here
    if [ $((i % 10)) = 0 ]; then fabric connect -n "$sub" -i 1; nvme disconnect -n "$sub" >/dev/null; continue; fi
    printf %s "nqn=$sub,transport=$TR,traddr=$T_ADDR,trsvcid=4420,nr_io_queues=2,hostnqn=$(</etc/nvme/hostnqn),hostid=$(</etc/nvme/hostid)" >/dev/nvme-fabrics
    c=$(ctrl); echo 1 >"/sys/class/nvme/${c##*/}/delete_controller"
  done
  until_true 3 no_ctrl || fail "controllers left: $(ls /sys/class/nvme)"
  connect -i 1; put "$d" 0 8 a; same "$d" 0 8 a
  [[ " $T_HAS " != *" connections "* ]] || want "connections at the target" "$(ask t_connections)" 2
}
check_refused() {
  log_ok 'Connect|connect'; log_ok 'failed to connect socket: -111'; log_ok 'nvme.*(error|fail)'
  dmesg -c >>"$L/kernel.log"
  refuse() { # WHAT LOG OPTIONS...
    local what=$1 re=$2; shift 2
    fabric connect "$@" && fail "$what: connected" || :
    dmesg | tail -4 >/tmp/o; cat /tmp/o; dmesg -c >>"$L/kernel.log"
    grep -qE "$re" /tmp/o || fail "$what: no '$re' in the kernel log"
  }
  PORT=4422 refuse "host not allowed" 'does not allow host|DNR|0x4184|16772' -n "$sub-guarded" -i 1 --hostnqn=nqn.2026-01.org.example:host-no
  refuse "no such subsystem" 'not found|0x4182|Invalid|invalid|16770|DNR' -n "$sub-none" -i 1
  PORT=4429 refuse "nobody listens" 'failed to connect socket: -111|Connection refused|Connect rejected: status 8 ' -n "$sub" -i 1
  PORT=4422 fabric discover --hostnqn=nqn.2026-01.org.example:host-no | tee /tmp/o
  ! grep -q guarded /tmp/o || fail "discovery shows a subsystem that this host may not use"
  PORT=4422 fabric connect -n "$sub-guarded" -i 1 --hostnqn=$hostnqn_ok
  d=$(nsdev 1); put "$d" 0 8 ok; same "$d" 0 8 ok
}
check_restart_load() {
  log_ok 'failed to connect socket: -111'; log_ok '[Ff]ailed reconnect'; log_ok 'nvme.*starting error recovery|error recovery'
  log_ok 'nvme.*(failed nvme_keep_alive_end_io|keep.alive)'; log_ok 'Failed to configure|rescan'; log_ok 'nvme.*I/O (tag|queue|error)|queue.*(io timeout|timeout)'
  log_ok 'nvme.*(Connect|connect|Connecting)'; log_ok 'sending request failed|failed to send request|receive failed|socket'
  log_ok 'for CQE .* WR flushed|I/O [0-9]+ QID [0-9]+ timeout'      # RDMA's words
  PORT=4421 fabric connect -n "$sub-files" -i 2 -c 1 -l 60 -k 5; c=$(ctrl "$sub-files"); d=$(nsdev 1)
  load "$d" 12
  sleep 3; ask t_files_kill; sleep 2; ask t_files_start
  until_true 15 is_live "$c" || fail "not reconnected: $(state "$c")"
  sleep 1; ask t_files_kill; ask t_files_start
  load_done
  until_true 5 is_live "$c" || fail "not live at the end: $(state "$c")"
  put "$d" 0 8 a; same "$d" 0 8 a
}
check_discovery_lasting() {
  local v
  fabric discover -p -k "${SHORT:-2}" | grep -c subnqn
  c=$(ctrl nqn.2014-08.org.nvmexpress.discovery) || fail "no lasting discovery controller"
  want "cntrltype" "$(nvme id-ctrl "$c" -o json | jq .cntrltype)" 2
  sleep $((3 * ${SHORT:-2} - 1)); want "state" "$(state "$c")" live
  nvme discover -d "${c##*/}" | grep -q "$sub" || fail "discovery over the lasting controller does not name $sub"
}

check_dissect() {
  t_has capture
  ask t_capture_start
  fabric discover >/dev/null
  connect -i 2
  put "$d" 0 1 a; same "$d" 0 1 a; put "$d" 8 256 b; same "$d" 8 256 b     # in the capsule, short and long
  put "$d" 8 400 c; same "$d" 8 400 c       # by R2T
  nvme write-zeroes "$d" -s 0 -c 3; nvme dsm "$d" -d -s 8 -b 8; nvme flush "$d"
  nvme id-ctrl "$c" >/dev/null; nvme id-ns "$d" >/dev/null; nvme ns-descs "$d" >/dev/null; nvme list-ns "$c" >/dev/null
  nvme smart-log "$c" >/dev/null; nvme fw-log "$c" >/dev/null; nvme ana-log "$c" >/dev/null; nvme get-feature "$c" -f 7
  want_status 0x80 nvme read "$d" -s 0x7fffffff -c 0 -z 512
  nvme reset "$c"; until_true 5 is_live "$c"; disconnect
  connect -i 1 --hdr-digest --data-digest
  put "$d" 0 1 c; same "$d" 0 1 c; put "$d" 8 256 d; same "$d" 8 256 d; nvme smart-log "$c" >/dev/null
  want_status 0x80 nvme read "$d" -s 0x7fffffff -c 0 -z 512
  disconnect
  ask t_capture_stop >/tmp/o || { cat /tmp/o; fail "tshark: $(head -1 /tmp/o)"; }
  want_num "good digests" "$(ask t_digests)" -gt 50
}
report() { nvme resv-report "$1" -n 1 -e -d 63 -o json; }      # 256 bytes: three registrants
check_reservations() {
  local a b h
  t_has resv; log_ok 'nvme.*(reservation|Reservation|conflict)'; log_ok '0x83|sct 0x0 / sc 0x83|critical nexus|Reservation Conflict'
  modprobe -r "nvme-$TR" nvme-fabrics nvme nvme-core 2>/dev/null || :
  modprobe nvme-core multipath=N; modprobe "nvme-$TR"     # so that each host has a block device of its own
  for h in a b; do    # straight to the kernel: nvme-cli 2.3 would allow one connection to a subsystem
    printf %s "nqn=$sub,transport=$TR,traddr=$T_ADDR,trsvcid=4420,nr_io_queues=1,hostnqn=nqn.2026-01.org.example:host-$h,hostid=00000000-0000-4000-8000-0000000000$h$h" >/dev/nvme-fabrics
  done
  sleep 0.5
  for h in /sys/block/nvme*n*; do [ "$(cat "$h/nsid")" = 1 ] && case $(cat "$h/device/hostnqn") in *host-a) a=/dev/${h##*/};; *) b=/dev/${h##*/};; esac; done
  echo "a is $a, b is $b"
  put "$a" 0 1 a; same "$b" 0 1 a
  want "registrants at first" "$(report "$b" | jq .regctl)" 0
  nvme resv-register "$a" -n 1 --nrkey=0xa1 -r 0; nvme resv-register "$b" -n 1 --nrkey=0xb1 -r 0
  report "$a"; want "registrants" "$(report "$a" | jq .regctl)" 2
  want "their keys" "$(report "$b" | jq -c '[.regctlext[].rkey] | sort')" '[161,177]'
  # write exclusive, held by a: b may read, not write
  nvme resv-acquire "$a" -n 1 -c 0xa1 -t 1 -a 0
  want "type" "$(report "$b" | jq .rtype)" 1
  want "the holder" "$(report "$b" | jq -c '[.regctlext[] | select(.rcsts == 1) | .rkey]')" '[161]'
  put "$a" 0 1 b; same "$b" 0 1 b
  pat c 512 >/tmp/w; want_status 0x83 nvme write "$b" -s 0 -c 0 -z 512 -d /tmp/w; same "$a" 0 1 b
  want_status 0x83 nvme resv-acquire "$b" -n 1 -c 0xb1 -t 1 -a 0
  want_status 0x83 nvme resv-register "$b" -n 1 -c 0xbad --nrkey=1 -r 2
  # b preempts a, for itself alone
  nvme resv-acquire "$b" -n 1 -c 0xb1 -p 0xa1 -t 2 -a 1
  report "$b"; want "registrants after preempt" "$(report "$b" | jq .regctl)" 1; want "type after preempt" "$(report "$b" | jq .rtype)" 2
  want_status 0x83 nvme write "$a" -s 0 -c 0 -z 512 -d /tmp/w
  want_status 0x83 nvme read "$a" -s 0 -c 0 -z 512
  put "$b" 0 1 d; same "$b" 0 1 d
  nvme resv-release "$b" -n 1 -c 0xb1 -t 2 -a 0; want "type after release" "$(report "$b" | jq .rtype)" 0
  put "$a" 0 1 e; same "$b" 0 1 e
  # register again, replace the key, write exclusive for registrants, clear
  nvme resv-register "$a" -n 1 --nrkey=0xa2 -r 0; nvme resv-register "$a" -n 1 -c 0xa2 --nrkey=0xa3 -r 2
  nvme resv-acquire "$a" -n 1 -c 0xa3 -t 3 -a 0; put "$b" 0 1 f; same "$a" 0 1 f
  nvme resv-release "$a" -n 1 -c 0xa3 -a 1
  report "$a"; want "registrants after clear" "$(report "$a" | jq .regctl)" 0
}
