/* SPDX-License-Identifier: Apache-2.0 */
/* The table itself, the report's forms, and the kernel's answers as bytes. */
#include <netinet/in.h> /* before what the kernel has of it */

#include <linux/dcbnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/xt_multiport.h>
#include <linux/netfilter/xt_tcpudp.h>
#include <stdlib.h>
#include <string.h>

#include "live.h"
#include "test_tree.h"
#include "xt.h"

static void table_is_whole(void **state)
{
    for (size_t i = 0; i < nr_doctor_checks; i++) {
        const struct check *c = &doctor_checks[i];

        assert_true(c->id && c->what && c->how && c->cause && c->remedy);
        assert_true(strlen(c->id) <= 20 &&
                    strspn(c->id, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(c->id));
        assert_true(strlen(c->what) > 10 && c->what[strlen(c->what) - 1] == '?');
        assert_true(strlen(c->how) > 5 && strlen(c->cause) > 10 && strlen(c->remedy) > 5);
        for (size_t n = 0; n < i; n++)
            assert_string_not_equal(c->id, doctor_checks[n].id);
    }
    assert_true(nr_doctor_checks > 50);
}

static char *script_of(struct tree *t)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    doctor_script(&t->d, f);
    fclose(f);
    return text;
}

static void shell_words(void **state)
{
    const char *const words[][2] = {
        {"eth0", "eth0"},       {"", "''"},   {"a b", "'a b'"}, {"$(reboot)", "'$(reboot)'"},
        {"it's", "'it'\\''s'"}, {";", "';'"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char *word = shell_word(words[i][0]);

        assert_string_equal(word, words[i][1]);
        free(word);
    }
}

/* An interface may be named nearly anything: the script must not run its name. The script is run, with sysctl
 * harmless. */
static void script_is_safe(void **state)
{
    struct tree t;
    char *script, path[160], command[400];
    FILE *f;

    tree_begin(&t);
    tree_interface(&t, "x;touch${IFS}bad", 1500);
    tree_interface(&t, "eth1", 1500);
    tree_put(&t, "/proc/sys/net/ipv4/conf/x;touch${IFS}bad/rp_filter", "1\n");
    tree_put(&t, "/proc/sys/net/ipv4/conf/eth1/rp_filter", "1\n");
    tree_run(&t, "net-rp-filter");
    tree_expect(&t, "net-rp-filter", "eth1", LEVEL_SLOW, "");
    script = script_of(&t);
    assert_non_null(strstr(script, "\nsysctl -w net/ipv4/conf/eth1/rp_filter=2\n"));
    snprintf(path, sizeof(path), "%s/mend.sh", t.root);
    f = fopen(path, "w");
    fputs("set -u; sysctl() { echo \"$@\"; }\n", f);
    fputs(script, f);
    fclose(f);
    snprintf(command, sizeof(command),
             "cd %s && sh mend.sh > out 2>&1 && grep -q 'rp_filter=2' out && [ ! -e bad ]", t.root);
    assert_int_equal(system(command), 0);
    free(script);
    tree_end(&t);
}

/* Text of a device cannot end a comment, and one remedy stands once */
static void script_comments(void **state)
{
    struct tree t;
    char *script;

    tree_begin(&t);
    t.d.now = &doctor_checks[0];
    report_as(&t.d, "net-arp", LEVEL_SLOW, "a", "b", "first\nreboot");
    report_as(&t.d, "net-arp", LEVEL_SLOW, "c", "d", "second");
    report_as(&t.d, "net-mtu", LEVEL_HINT, "e", NULL, "a hint is not mended");
    script = script_of(&t);
    assert_null(strstr(script, "\nreboot"));
    assert_non_null(strstr(script, "# the remedy is above\n"));
    assert_null(strstr(script, "mtu 9000"));
    free(script);
    tree_end(&t);
}

static void json_form(void **state)
{
    struct tree t;
    json_t *j;

    tree_begin(&t);
    tree_put(&t, "/proc/sys/net/ipv4/tcp_sack", "0\n");
    tree_interface(&t, "\xff\xfe", 1500); /* no UTF-8 */
    tree_run(&t, NULL);
    j = doctor_json(&t.d);
    assert_non_null(j);
    assert_int_equal(json_integer_value(json_object_get(j, "version")), 1);
    assert_int_equal(json_array_size(json_object_get(j, "findings")), t.d.nr_findings);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "counts"), "slow")),
                     doctor_count(&t.d, LEVEL_SLOW));
    json_decref(j);
    tree_end(&t);
}

static void text_form(void **state)
{
    struct tree t;
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    tree_begin(&t);
    tree_put(&t, "/proc/sys/net/ipv4/tcp_sack", "0\n");
    tree_interface(&t, "e\033[2Jx", 9000); /* a terminal would clear itself */
    tree_run(&t, NULL);
    doctor_show(&t.d, f, true);
    fclose(f);
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "evidence"));
    assert_non_null(strstr(text, "sysctl -w net/ipv4/tcp_sack=1"));
    free(text);
    tree_end(&t);
}

/* ---- netlink ---- */

struct message {
    _Alignas(struct nlmsghdr) uint8_t bytes[1024];
};

static void begin(struct message *m, const void *head, size_t len)
{
    netlink_begin((struct netlink_ask *)m, 1, 0, head, len);
}

/* Puts an attribute whose value stands in `value`; returns its length with padding */
static size_t attr(uint8_t *at, uint16_t type, const void *value, size_t len)
{
    struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type};

    memset(at, 0, NLA_ALIGN(a.nla_len));
    memcpy(at, &a, sizeof(a));
    memcpy(at + NLA_HDRLEN, value, len);
    return NLA_ALIGN(a.nla_len);
}

static void dcb_answer(void **state)
{
    const struct dcbmsg head = {0};
    const struct dcb_app apps[] = {
        {IEEE_8021QAZ_APP_SEL_DSCP, 3, 26}, {1, 5, 10}, {IEEE_8021QAZ_APP_SEL_DSCP, 6, 200}};
    struct ieee_pfc pfc = {.pfc_cap = 8, .pfc_en = 0x08};
    uint8_t table[128], ieee[512];
    size_t table_len = 0, ieee_len = 0;
    struct message m;
    struct sys_dcb dcb;

    for (int i = 0; i < 3; i++)
        table_len += attr(table + table_len, 1, &apps[i], sizeof(apps[i]));
    ieee_len += attr(ieee, DCB_ATTR_IEEE_PFC, &pfc, sizeof(pfc));
    ieee_len += attr(ieee + ieee_len, DCB_ATTR_IEEE_APP_TABLE, table, table_len);
    begin(&m, &head, sizeof(head));
    netlink_attr((struct netlink_ask *)&m, DCB_ATTR_IEEE, ieee, ieee_len);
    dcb_parse((const struct nlmsghdr *)m.bytes, &dcb);
    assert_int_equal(dcb.pfc, 0x08);
    assert_true(dcb.has_dscp);
    assert_int_equal(dcb.dscp_prio[26], 3);
    assert_int_equal(dcb.dscp_prio[10], 0);
    /* every cut, and every length that lies, is survived */
    for (uint32_t len = 0; len < ((struct nlmsghdr *)m.bytes)->nlmsg_len; len++) {
        struct message cut = m;

        ((struct nlmsghdr *)cut.bytes)->nlmsg_len = len;
        dcb_parse((const struct nlmsghdr *)cut.bytes, &dcb);
        memset(cut.bytes + len, 0xff, 8);
        ((struct nlmsghdr *)cut.bytes)->nlmsg_len = ((struct nlmsghdr *)m.bytes)->nlmsg_len;
        if (len >= sizeof(struct nlmsghdr))
            dcb_parse((const struct nlmsghdr *)cut.bytes, &dcb);
    }
}

static void firewall_answer(void **state)
{
    const struct nfgenmsg head = {0};
    const uint8_t input[] = {0, 0, 0, NF_INET_LOCAL_IN}, drop[] = {0, 0, 0, NF_DROP},
                  port[] = {4791 >> 8, 4791 & 255};
    struct sys_chain chains[2];
    struct firewall_parse parse = {.chains = chains, .max = 2};
    uint8_t a[128], b[128], c[128];
    struct message m;
    size_t len;

    begin(&m, &head, sizeof(head));
    netlink_attr((struct netlink_ask *)&m, NFTA_CHAIN_TABLE, "filter", 7);
    netlink_attr((struct netlink_ask *)&m, NFTA_CHAIN_NAME, "input", 6);
    len = attr(a, NFTA_HOOK_HOOKNUM, input, 4);
    netlink_attr((struct netlink_ask *)&m, NFTA_CHAIN_HOOK, a, len);
    netlink_attr((struct netlink_ask *)&m, NFTA_CHAIN_POLICY, drop, 4);
    firewall_take_chain(&parse, (const struct nlmsghdr *)m.bytes);
    assert_int_equal(parse.nr, 1);
    assert_string_equal(chains[0].table, "filter");
    assert_true(chains[0].drops && !chains[0].names_4791);

    len = attr(a, NFTA_DATA_VALUE, port, 2);
    len = attr(b, NFTA_CMP_DATA, a, len);
    size_t name = attr(c, NFTA_EXPR_NAME, "cmp", 4);
    len = name + attr(c + name, NFTA_EXPR_DATA, b, len);
    len = attr(a, NFTA_LIST_ELEM, c, len);
    begin(&m, &head, sizeof(head));
    netlink_attr((struct netlink_ask *)&m, NFTA_RULE_TABLE, "filter", 7);
    netlink_attr((struct netlink_ask *)&m, NFTA_RULE_EXPRESSIONS, a, len);
    firewall_take_rule(&parse, (const struct nlmsghdr *)m.bytes);
    assert_true(chains[0].names_4791 && !chains[0].names_4420 && !chains[0].unclear);
    for (uint32_t cut = 0; cut < ((struct nlmsghdr *)m.bytes)->nlmsg_len; cut++) {
        struct message part = m;

        ((struct nlmsghdr *)part.bytes)->nlmsg_len = cut;
        firewall_take_rule(&parse, (const struct nlmsghdr *)part.bytes);
        firewall_take_chain(&parse, (const struct nlmsghdr *)part.bytes);
    }
}

/* ---- rules in the form of the old iptables ---- */

static struct sys_chain match(const char *name, const void *info, size_t len)
{
    struct sys_chain chain = {0};

    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *part = malloc(cut + 1);

        memcpy(part, info, cut);
        xt_take_match(name, part, cut, &chain);
        free(part);
    }
    chain = (struct sys_chain){0};
    xt_take_match(name, info, len, &chain);
    return chain;
}

static void iptables_matches(void **state)
{
    struct xt_udp udp = {.spts = {0, 65535}, .dpts = {4791, 4791}};
    struct xt_tcp tcp = {.spts = {0, 65535}, .dpts = {4420, 4421}};
    struct xt_multiport_v1 ports = {
        .flags = XT_MULTIPORT_DESTINATION, .count = 3, .ports = {22, 4000, 5000}, .pflags = {0, 1, 0}};
    struct sys_chain c = match("udp", &udp, sizeof(udp));

    assert_true(c.names_4791 && !c.names_4420 && !c.unclear);
    udp.dpts[1] = 65535;
    udp.dpts[0] = 0; /* any */
    c = match("udp", &udp, sizeof(udp));
    assert_true(!c.names_4791 && !c.unclear);
    udp.dpts[1] = 4000;
    udp.invflags = XT_UDP_INV_DSTPT; /* all but these */
    assert_true(match("udp", &udp, sizeof(udp)).unclear);
    c = match("tcp", &tcp, sizeof(tcp));
    assert_true(c.names_4420 && !c.names_4791);
    c = match("multiport", &ports, sizeof(ports));
    assert_true(c.names_4420 && c.names_4791 && !c.unclear); /* 4000 to 5000 */
    ports.pflags[1] = 0;
    c = match("multiport", &ports, sizeof(ports));
    assert_true(!c.names_4420 && !c.names_4791 && !c.unclear);
    ports.count = 200;
    assert_true(match("multiport", &ports, sizeof(ports)).unclear);
    assert_true(match("set", "", 1).unclear);
    assert_false(match("conntrack", "", 1).unclear);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(table_is_whole), cmocka_unit_test(shell_words),
                       cmocka_unit_test(script_is_safe), cmocka_unit_test(script_comments),
                       cmocka_unit_test(json_form), cmocka_unit_test(text_form), cmocka_unit_test(dcb_answer),
                       cmocka_unit_test(firewall_answer), cmocka_unit_test(iptables_matches));
}
