/* SPDX-License-Identifier: Apache-2.0 */
/* Who listens at the other end, when that end is this machine: the listening socket in /proc/net/tcp{,6},
 * then the process that has it open. No cooperation of the target is needed; a kernel's target, or one of
 * another user, stays unknown. */
#include <ctype.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/address.h"
#include "base/url.h"
#include "base/util.h"
#include "bench.h"

#define MAX_ADDRESSES 8
#define STATE_LISTEN  0x0a

static bool is_local(const struct fl_addr *addr)
{
    struct ifaddrs *all, *i;
    bool found = fl_addr_is_loopback(addr);

    if (found || getifaddrs(&all) < 0)
        return found;
    for (i = all; i && !found; i = i->ifa_next) {
        struct fl_addr own;

        if (!i->ifa_addr)
            continue;
        if (fl_addr_from(&own, i->ifa_addr,
                         i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                           : sizeof(struct sockaddr_in6)) == 0)
            found = fl_addr_same_ip(&own, addr);
    }
    freeifaddrs(all);
    return found;
}

/* "0100007F:1144": words of the address in this machine's order, port in hexadecimal. */
static bool parse_local(const char *text, bool v6, struct fl_addr *addr)
{
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr->ss;
    struct sockaddr_in *in = (struct sockaddr_in *)&addr->ss;
    uint32_t word[4];
    unsigned port;

    memset(addr, 0, sizeof(*addr));
    if (v6) {
        if (sscanf(text, "%8x%8x%8x%8x:%x", &word[0], &word[1], &word[2], &word[3], &port) != 5)
            return false;
        in6->sin6_family = AF_INET6;
        memcpy(&in6->sin6_addr, word, sizeof(word));
        addr->len = sizeof(*in6);
    } else {
        if (sscanf(text, "%8x:%x", &word[0], &port) != 2)
            return false;
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, word, 4);
        addr->len = sizeof(*in);
    }
    fl_addr_set_port(addr, (uint16_t)port);
    return true;
}

static bool listens_for(const struct fl_addr *listener, const struct fl_addr *wanted)
{
    if (fl_addr_port(listener) != fl_addr_port(wanted))
        return false;
    return fl_addr_is_any(listener) || fl_addr_same_ip(listener, wanted);
}

/* Inode of the socket that listens for addr in this table; 0: none. */
static unsigned long find_socket(const char *table, bool v6, const struct fl_addr *addr)
{
    unsigned long inode = 0;
    char line[512];
    FILE *f = fopen(table, "re");

    while (f && !inode && fgets(line, sizeof(line), f)) {
        struct fl_addr listener;
        unsigned long found;
        char local[64];
        unsigned state;

        if (sscanf(line, " %*u: %63s %*s %x %*s %*s %*s %*u %*u %lu", local, &state, &found) != 3 ||
            state != STATE_LISTEN)
            continue;
        if (parse_local(local, v6, &listener) && listens_for(&listener, addr))
            inode = found;
    }
    if (f)
        fclose(f);
    return inode;
}

static bool has_socket(const char *pid, unsigned long inode)
{
    char path[300], wanted[48], link[64];
    bool found = false;
    struct dirent *e;
    DIR *dir;

    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
    dir = opendir(path);
    while (dir && !found && (e = readdir(dir))) {
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%.20s/fd/%.200s", pid, e->d_name);
        n = readlink(path, link, sizeof(link) - 1);
        if (n <= 0)
            continue;
        link[n] = 0;
        found = !strcmp(link, wanted);
    }
    if (dir)
        closedir(dir);
    return found;
}

static pid_t find_process(unsigned long inode)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    pid_t pid = 0;

    while (dir && !pid && (e = readdir(dir)))
        if (isdigit((unsigned char)e->d_name[0]) && has_socket(e->d_name, inode))
            pid = (pid_t)atoi(e->d_name);
    if (dir)
        closedir(dir);
    return pid;
}

pid_t bench_peer_find(const char *text)
{
    struct fl_addr addrs[MAX_ADDRESSES];
    struct fl_url *url = calloc(1, sizeof(*url));
    unsigned long inode = 0;
    char host[FL_HOST_LEN + 16];
    int n = 0, i;

    if (url && fl_url_parse(text, url, NULL) == 0 && url->kind == FL_URL_NVME_TCP) {
        snprintf(host, sizeof(host), strchr(url->host, ':') ? "[%s]:%s" : "%s:%s", url->host, url->port);
        n = fl_addr_resolve(host, FL_URL_DEFAULT_PORT, addrs, MAX_ADDRESSES, NULL);
    }
    free(url);
    for (i = 0; i < n && !inode; i++) {
        if (!is_local(&addrs[i]))
            continue;
        if (addrs[i].ss.ss_family == AF_INET)
            inode = find_socket("/proc/net/tcp", false, &addrs[i]);
        if (!inode)
            inode = find_socket("/proc/net/tcp6", true, &addrs[i]);
    }
    return inode ? find_process(inode) : 0;
}

struct bench_cpu bench_peer_cpu(pid_t pid)
{
    struct bench_cpu sum = {-1, -1};
    char path[300];
    struct dirent *e;
    DIR *dir;

    if (!pid)
        return sum;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        long long ns, wait_ns;
        FILE *f;

        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", (int)pid, e->d_name);
        f = fopen(path, "re");
        if (f && fscanf(f, "%lld %lld", &ns, &wait_ns) == 2) {
            sum.ns = FL_MAX(sum.ns, 0) + ns;
            sum.wait_ns = FL_MAX(sum.wait_ns, 0) + wait_ns;
        }
        if (f)
            fclose(f);
    }
    if (dir)
        closedir(dir);
    return sum;
}
