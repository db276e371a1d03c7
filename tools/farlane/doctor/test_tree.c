/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test_tree.h"

static void make_folders(const char *path)
{
    char part[PATH_MAX];

    snprintf(part, sizeof(part), "%s", path);
    for (char *p = strchr(part + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(part, 0755);
        *p = '/';
    }
}

void tree_bytes(struct tree *t, const char *path, const void *bytes, size_t len)
{
    char full[PATH_MAX];
    FILE *f;

    snprintf(full, sizeof(full), "%s%s", t->root, path);
    make_folders(full);
    f = fopen(full, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

void tree_put(struct tree *t, const char *path, const char *fmt, ...)
{
    char text[8192];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    assert_true(n >= 0 && n < (int)sizeof(text));
    tree_bytes(t, path, text, (size_t)n);
}

void tree_link(struct tree *t, const char *path, const char *to)
{
    char full[PATH_MAX], target[PATH_MAX];

    snprintf(full, sizeof(full), "%s%s", t->root, path);
    snprintf(target, sizeof(target), "%s%s", t->root, to);
    make_folders(full);
    make_folders(target);
    mkdir(target, 0755);
    assert_int_equal(symlink(target, full), 0);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

void tree_remove(struct tree *t, const char *path)
{
    char full[PATH_MAX];

    snprintf(full, sizeof(full), "%s%s", t->root, path);
    nftw(full, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- hooks: each reads a file; without it, nothing can be asked ---- */

static char *hook(const struct sys *sys, const char *fmt, ...) FL_PRINTF(2, 3);
static char *hook(const struct sys *sys, const char *fmt, ...)
{
    char path[PATH_MAX] = "/hooks/";
    va_list args;

    va_start(args, fmt);
    vsnprintf(path + 7, sizeof(path) - 7, fmt, args);
    va_end(args);
    return sys_read_all(sys, path);
}

/* A file whose text is "error N" */
static bool is_error(const char *text, int *code)
{
    return sscanf(text, "error %d", code) == 1;
}

/* Lines "IFNAME ADDRESS/LEN" */
static int fake_addrs(const struct sys *sys, struct sys_addr *addrs, int max)
{
    char *text = hook(sys, "addrs"), *save = NULL;
    int nr = 0;

    if (!text)
        return -EOPNOTSUPP;
    for (char *line = strtok_r(text, "\n", &save); line && nr < max; line = strtok_r(NULL, "\n", &save)) {
        char addr[64], mapped[80];
        int len;

        if (sscanf(line, "%63s %63[^/]/%d", addrs[nr].ifname, addr, &len) != 3)
            continue;
        snprintf(mapped, sizeof(mapped), "%s%s", strchr(addr, ':') ? "" : "::ffff:", addr);
        if (inet_pton(AF_INET6, mapped, &addrs[nr].addr) != 1)
            continue;
        addrs[nr].prefix_len = (uint8_t)(len + (strchr(addr, ':') ? 0 : 96));
        nr++;
    }
    free(text);
    return nr;
}

static int fake_port_mtu(const struct sys *sys, const char *dev, int port, uint32_t *active, uint32_t *max)
{
    char *text = hook(sys, "mtu/%s", dev);
    int r = text && sscanf(text, "%u %u", active, max) == 2 ? 0 : -EOPNOTSUPP;

    free(text);
    return r;
}

/* "MASK [DSCP:PRIO ...]" */
static int fake_dcb(const struct sys *sys, const char *ifname, struct sys_dcb *dcb)
{
    char *text = hook(sys, "dcb/%s", ifname);
    unsigned int mask, dscp, prio;
    int n;

    if (!text || sscanf(text, "%x%n", &mask, &n) != 1) {
        free(text);
        return -EOPNOTSUPP;
    }
    *dcb = (struct sys_dcb){.pfc = (uint8_t)mask};
    for (char *p = text + n; sscanf(p, " %u:%u%n", &dscp, &prio, &n) == 2; p += n) {
        dcb->has_dscp = true;
        dcb->dscp_prio[dscp & 63] = (uint8_t)prio;
    }
    free(text);
    return 0;
}

static int fake_pause(const struct sys *sys, const char *ifname, bool *rx, bool *tx)
{
    char *text = hook(sys, "pause/%s", ifname);
    int a, b, r = text && sscanf(text, "%d %d", &a, &b) == 2 ? 0 : -EOPNOTSUPP;

    if (!r) {
        *rx = a;
        *tx = b;
    }
    free(text);
    return r;
}

static int fake_counters(const struct sys *sys, const char *ifname, struct sys_counter *counters, int max)
{
    char *text = hook(sys, "counters/%s", ifname), *save = NULL;
    int nr = 0;

    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line && nr < max;
         line = strtok_r(NULL, "\n", &save)) {
        unsigned long long value;

        if (sscanf(line, "%63s %llu", counters[nr].name, &value) == 2)
            counters[nr++].value = value;
    }
    free(text);
    return nr;
}

/* "TABLE CHAIN drop|accept 4791? 4420? unclear?" */
static bool chain_of(const char *line, struct sys_chain *c)
{
    char policy[16];
    int roce, nvme, unclear;

    if (sscanf(line, "%63s %63s %15s %d %d %d", c->table, c->name, policy, &roce, &nvme, &unclear) != 6)
        return false;
    c->drops = !strcmp(policy, "drop");
    c->names_4791 = roce;
    c->names_4420 = nvme;
    c->unclear = unclear;
    return true;
}

static int fake_firewall(const struct sys *sys, struct sys_chain *chains, int max)
{
    char *text = hook(sys, "firewall"), *save = NULL;
    int nr = 0, code;

    if (!text)
        return -EOPNOTSUPP;
    if (is_error(text, &code))
        nr = -code;
    for (char *line = nr < 0 ? NULL : strtok_r(text, "\n", &save); line && nr < max;
         line = strtok_r(NULL, "\n", &save))
        nr += chain_of(line, &chains[nr]);
    free(text);
    return nr;
}

static int fake_iptables(const struct sys *sys, bool ip6, struct sys_chain *chain)
{
    char *text = hook(sys, ip6 ? "ip6tables" : "iptables");
    int code, r = text ? -EPROTO : -EOPNOTSUPP;

    if (text && is_error(text, &code))
        r = -code;
    else if (text && chain_of(text, chain))
        r = 0;
    free(text);
    return r;
}

static int fake_space(const struct sys *sys, const char *path, uint64_t *total, uint64_t *left)
{
    char *text = hook(sys, "space");
    unsigned long long a, b;
    int r = text && sscanf(text, "%llu %llu", &a, &b) == 2 ? 0 : -ENOENT;

    if (!r) {
        *total = a;
        *left = b;
    }
    free(text);
    return r;
}

static int fake_uring(const struct sys *sys)
{
    char *text = hook(sys, "uring");
    int code = EOPNOTSUPP;

    if (text && !is_error(text, &code))
        code = 0;
    free(text);
    return -code;
}

/* hooks/gpu/N/DEV/{dmabuf,peermem}: "ok" or "error N" */
static int fake_gpu(const struct sys *sys, int gpu, const char *dev, enum sys_register how, char *why,
                    size_t len)
{
    char *text = hook(sys, "gpu/%d/%s/%s", gpu, dev, how == SYS_REGISTER_DMABUF ? "dmabuf" : "peermem");
    int code = EOPNOTSUPP;

    if (text && !is_error(text, &code))
        code = 0;
    free(text);
    snprintf(why, len, "fake %d", code);
    return -code;
}

static const struct sys_ops fake_ops = {
    .addrs = fake_addrs,
    .port_mtu = fake_port_mtu,
    .dcb = fake_dcb,
    .pause = fake_pause,
    .counters = fake_counters,
    .firewall = fake_firewall,
    .iptables = fake_iptables,
    .space = fake_space,
    .uring = fake_uring,
    .gpu_register = fake_gpu,
};

void tree_begin(struct tree *t)
{
    memset(t, 0, sizeof(*t));
    snprintf(t->root, sizeof(t->root), "/tmp/farlane-doctor-XXXXXX");
    assert_non_null(mkdtemp(t->root));
    t->sys = (struct sys){.root = t->root, .ops = &fake_ops};
    t->d = (struct doctor){.sys = &t->sys, .plan_len = 1 << 30};
}

void tree_end(struct tree *t)
{
    doctor_free(&t->d);
    tree_remove(t, "");
}

void tree_run(struct tree *t, const char *id)
{
    doctor_free(&t->d);
    doctor_run(&t->d, id);
    assert_false(t->d.broken);
    assert_true(t->d.nr_findings > 0); /* at least: there is nothing of the kind */
}

const struct finding *tree_expect(struct tree *t, const char *id, const char *subject, enum level level,
                                  const char *evidence)
{
    for (size_t i = 0; i < t->d.nr_findings; i++) {
        const struct finding *f = &t->d.findings[i];

        if (strcmp(f->check->id, id) || (subject && strcmp(f->subject, subject)))
            continue;
        if (f->level != level || !strstr(f->evidence, evidence))
            fail_msg("%s %s is %s: '%s', wanted %s: '%s'", id, f->subject, level_name(f->level), f->evidence,
                     level_name(level), evidence);
        if (level <= LEVEL_HINT) {
            assert_true(f->cause && *f->cause);
            assert_true(f->remedy && *f->remedy);
            assert_null(strstr(f->remedy, "{0}"));
            assert_null(strstr(f->remedy, "{1}"));
        } else {
            assert_null(f->remedy);
        }
        return f;
    }
    fail_msg("%s: no finding of %s", id, subject ? subject : "any subject");
    return NULL;
}

void tree_expect_none(struct tree *t, const char *id)
{
    for (size_t i = 0; i < t->d.nr_findings; i++)
        if (!strcmp(t->d.findings[i].check->id, id))
            fail_msg("%s was found: %s", id, t->d.findings[i].evidence);
}

#define PUT(t, text, ...)                            \
    do {                                             \
        char path_[PATH_MAX];                        \
        snprintf(path_, sizeof(path_), __VA_ARGS__); \
        tree_put(t, path_, "%s", text);              \
    } while (0)

void tree_port(struct tree *t, const char *dev, const char *ifname)
{
    PUT(t, ifname ? "Ethernet\n" : "InfiniBand\n", "/sys/class/infiniband/%s/ports/1/link_layer", dev);
    PUT(t, "4: ACTIVE\n", "/sys/class/infiniband/%s/ports/1/state", dev);
    PUT(t, "5: LinkUp\n", "/sys/class/infiniband/%s/ports/1/phys_state", dev);
    PUT(t, "100 Gb/sec (4X EDR)\n", "/sys/class/infiniband/%s/ports/1/rate", dev);
    PUT(t, "28.39.1002\n", "/sys/class/infiniband/%s/fw_ver", dev);
    if (ifname) {
        PUT(t, ifname, "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", dev);
        PUT(t, "", "/sys/class/infiniband/%s/device/net/%s/x", dev, ifname);
    }
}

void tree_gid(struct tree *t, const char *dev, int index, const char *gid, const char *type,
              const char *ifname)
{
    PUT(t, gid, "/sys/class/infiniband/%s/ports/1/gids/%d", dev, index);
    if (type)
        PUT(t, type, "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d", dev, index);
    if (ifname)
        PUT(t, ifname, "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/%d", dev, index);
}

void tree_interface(struct tree *t, const char *ifname, int mtu)
{
    char text[16];

    snprintf(text, sizeof(text), "%d\n", mtu);
    PUT(t, text, "/sys/class/net/%s/mtu", ifname);
    PUT(t, "up\n", "/sys/class/net/%s/operstate", ifname);
    PUT(t, "1\n", "/sys/class/net/%s/type", ifname);
    PUT(t, "100000\n", "/sys/class/net/%s/speed", ifname);
    PUT(t, "full\n", "/sys/class/net/%s/duplex", ifname);
    PUT(t, "", "/sys/class/net/%s/device/x", ifname);
}
