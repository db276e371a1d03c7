/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discovery log (Fabrics 1.1, 5.3): what this host may use, by each listener that it could use. A
 * listener on all addresses is told with the address that the host has reached us at, for that one surely
 * works.
 */
#include <stdio.h>

#include "target/core.h"

/* The address that entries of this port bear; false: nothing that the host could reach. */
static bool entry_addr(const struct fl_tport *port, const struct fl_addr *reached, struct fl_addr *addr)
{
    if (port->state != FL_PORT_LISTENING)
        return false;
    *addr = port->addr;
    if (!fl_addr_is_any(addr))
        return true;
    if (!reached->len)
        return false;
    /* [::] takes IPv4 too where the kernel maps it; the host came that way then. 0.0.0.0 takes only IPv4. */
    if (addr->ss.ss_family != reached->ss.ss_family && addr->ss.ss_family == AF_INET)
        return false;
    *addr = *reached;
    fl_addr_set_port(addr, fl_addr_port(&port->addr));
    return true;
}

static void add_entry(struct fl_log_page *page, const struct fl_subsystem *ss, const struct fl_tport *port,
                      const struct fl_addr *addr)
{
    bool rdma = !strcmp(port->spec.transport, "rdma");
    struct fl_disc_record r = {
        .trtype = rdma ? FL_DISC_TRTYPE_RDMA : FL_DISC_TRTYPE_TCP,
        .adrfam = addr->ss.ss_family == AF_INET6 ? FL_DISC_ADRFAM_IPV6 : FL_DISC_ADRFAM_IPV4,
        .subtype = ss->discovery ? FL_DISC_SUBTYPE_CURRENT : FL_DISC_SUBTYPE_NVM,
        .treq = FL_DISC_TREQ_SECURE_NOT_REQUIRED | FL_DISC_TREQ_NO_SQ_FLOW,
        .portid = (uint16_t)port->id,
        .cntlid = FL_DISC_CNTLID_DYNAMIC,
        .asqsz = FL_ADMIN_DEPTH,
        .eflags = ss->discovery ? FL_DISC_EFLAGS_EPCSD | FL_DISC_EFLAGS_DUPRETINFO : 0,
        .sectype = FL_DISC_TCP_SECTYPE_NONE,
        .rdma_qptype = FL_DISC_RDMA_QPTYPE_CONNECTED,
        .rdma_prtype = FL_DISC_RDMA_PRTYPE_ROCEV2,
        .rdma_cms = FL_DISC_RDMA_CMS_RDMA_CM,
    };
    struct fl_disc_entry entry;
    char ip[FL_ADDR_IP_LEN];

    snprintf(r.trsvcid, sizeof(r.trsvcid), "%u", fl_addr_port(addr));
    snprintf(r.traddr, sizeof(r.traddr), "%s", fl_addr_format_ip(addr, ip));
    snprintf(r.subnqn, sizeof(r.subnqn), "%s", ss->nqn);
    memset(&entry, 0, sizeof(entry));
    if (fl_disc_entry_encode(&entry, &r) == 0)
        fl_log_add(page, &entry, sizeof(entry));
}

fl_nvme_status fl_log_discovery(struct fl_tctrl *ctrl, struct fl_log_page *page)
{
    struct fl_target *target = ctrl->target;
    struct fl_conn_info info = {0};
    struct fl_disc_header header;
    struct fl_addr reached = {0}, addr;
    struct fl_log_page entries = *page;
    struct fl_subsystem *ss;
    struct fl_tport *port;

    if (ctrl->admin && ctrl->admin->conn)
        fl_conn_info(ctrl->admin->conn, &info);
    if (fl_addr_parse(info.local, 0, &reached, NULL) < 0)
        memset(&reached, 0, sizeof(reached));
    entries.pos = sizeof(header);
    fl_list_for_each (ss, &target->subsystems, link) {
        if (ss->removing || !fl_subsystem_allows(ss, ctrl->hostnqn))
            continue;
        fl_list_for_each (port, &target->ports, link) {
            if (ss->discovery && port != ctrl->port) /* the one that answers, once */
                continue;
            if (entry_addr(port, &reached, &addr))
                add_entry(&entries, ss, port, &addr);
        }
    }
    memset(&header, 0, sizeof(header));
    fl_disc_header_encode(&header, target->genctr, entries.pos / sizeof(struct fl_disc_entry) - 1);
    fl_log_add(page, &header, sizeof(header));
    page->pos = entries.pos;
    return FL_NVME_SC_SUCCESS;
}
