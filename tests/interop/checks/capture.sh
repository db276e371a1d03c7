# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Captures in the lab's network, dissected by tshark. For scripts on the host side.
capture_start() { # FILE DEVICE [FILTER]
  rm -f "$1"
  tcpdump -i "$2" -B 131072 -w "$1" "${3:-tcp}" >"$1.log" 2>&1 & capture_pid=$!
  until_true 60 grep -q 'listening on' "$1.log" || { cat "$1.log"; return 1; }
}
capture_stop() { sleep 0.3; kill -INT "$capture_pid"; wait "$capture_pid" || :; }
# tshark 4.0 calls short reads of these two log pages malformed, whoever sent them; and where a capture has frames in
# another order than they were sent, the mark is TCP's
KNOWN_MARKS='Reassembly error, protocol TCP|Get Log Page.*(Error Information|Commands? Supported and Effects|Command Effects)'
dissect() { # FILE PORTS(as 4420,4421): prints what is wrong; nothing when all is well
  local o=(-o nvme-tcp.check_hdgst:TRUE -o nvme-tcp.check_ddgst:TRUE -o tcp.reassemble_out_of_order:TRUE) p
  for p in ${2//,/ }; do o+=(-d "tcp.port==$p,nvme-tcp"); done
  grep -E '^[1-9][0-9]* packets? dropped by kernel' "$1.log" || :
  tshark -r "$1" "${o[@]}" -Y _ws.malformed 2>/dev/null | grep -vE "$KNOWN_MARKS" | head -20 || :
  tshark -r "$1" "${o[@]}" -V 2>/dev/null | grep -E '^[[:space:]]*(PDU (Header|Data) Digest: 0x|\[(Header|Data) Digest Status|Pdu Type)' >"$1.pdus" || :
  grep -E 'incorrect|Status: (Bad|Unverified)' "$1.pdus" | head -5 || :
  grep -q 'CapsuleCommand' "$1.pdus" || echo "no command capsules in the capture"
  return 0
}
digests_seen() { # FILE: number of good digests
  grep -cE '\[correct\]|Status: Good' "$1.pdus" || :
}
dissect_rdma() { # FILE ADDRESS...: the same for NVMe/RDMA; and each packet's ICRC is right
  grep -E '^[1-9][0-9]* packets? dropped by kernel' "$1.log" || :
  tshark -r "$1" --disable-protocol rpcordma -Y _ws.malformed 2>/dev/null | grep -vE "$KNOWN_MARKS" | head -20 || :
  tshark -r "$1" --disable-protocol rpcordma -Y nvme-rdma -T fields -e _ws.col.Info 2>/dev/null >"$1.pdus" || :
  [ -s "$1.pdus" ] || echo "no NVMe/RDMA in the capture"
  python3 "$L/checks/icrc.py" "$@" | grep -v ' packets$' || :
}
