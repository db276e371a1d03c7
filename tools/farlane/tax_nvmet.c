/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's own target for the same file, where the kernel has it and this user may set it up. A shell
 * does that and takes it back when it is stopped, which it is however the command ends: what is in configfs
 * outlives processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tax.h"

static const char script[] =
    "nqn=$2 s=$1/nvmet/subsystems/$2 p=$1/nvmet/ports/$5\n"
    "w=\n"
    "end() {\n"
    "    trap '' TERM\n"
    "    [ -z \"$w\" ] || kill \"$w\"\n"
    "    rm -f \"$p/subsystems/$nqn\"\n"
    "    [ ! -e \"$s/namespaces/1/enable\" ] || echo 0 >\"$s/namespaces/1/enable\"\n"
    "    rmdir \"$p\" \"$s/namespaces/1\" \"$s\" 2>/dev/null\n"
    "    exit \"$1\"\n"
    "}\n"
    "trap 'end 0' TERM\n"
    "mkdir \"$s\" && echo 1 >\"$s/attr_allow_any_host\" && mkdir -p \"$s/namespaces/1\" &&\n"
    "    printf %s \"$3\" >\"$s/namespaces/1/device_path\" && echo 1 >\"$s/namespaces/1/enable\" &&\n"
    "    mkdir \"$p\" && mkdir -p \"$p/subsystems\" && echo tcp >\"$p/addr_trtype\" && echo ipv4 "
    ">\"$p/addr_adrfam\" &&\n"
    "    echo 127.0.0.1 >\"$p/addr_traddr\" && echo \"$4\" >\"$p/addr_trsvcid\" && ln -s \"$s\" "
    "\"$p/subsystems/$nqn\" ||\n"
    "    end 1\n"
    "echo ready\n"
    "sleep 1000000 &\n"
    "w=$!\n"
    "wait \"$w\"\n";

static bool has_module(void)
{
    struct utsname name;
    char path[400], line[4096];
    bool found = false;
    FILE *f;

    uname(&name);
    snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", name.release);
    f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f))
        found = strstr(line, "/nvmet-tcp.ko") != NULL;
    if (f)
        fclose(f);
    return found;
}

const char *tax_nvmet_missing(const char *configfs)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/nvmet/subsystems", configfs);
    if (access(path, F_OK) < 0)
        return has_module() ? "the kernel's module is not loaded: modprobe nvmet-tcp"
                            : "this kernel has no nvmet";
    return access(path, W_OK) < 0 ? "nvmet is set up by root only" : NULL;
}

const char *tax_nvmet_configfs(void)
{
    const char *path = getenv("FARLANE_CONFIGFS"); /* tests have a fake one */

    return path && *path ? path : "/sys/kernel/config";
}

bool tax_nvmet_listens(int port)
{
    char line[256];
    unsigned int at, state;
    bool yes = false;
    int i;

    for (i = 0; i < 100 && !yes; i++) {
        FILE *f = fopen("/proc/net/tcp", "re");

        while (f && !yes && fgets(line, sizeof(line), f))
            yes = sscanf(line, " %*d: %*x:%x %*x:%*x %x", &at, &state) == 2 && (int)at == port && state == 0x0A;
        if (f)
            fclose(f);
        if (!yes)
            usleep(20000);
    }
    return yes;
}

int tax_nvmet_start(struct child *c, const char *nqn, const char *file, int port, struct fl_error *err)
{
    char port_text[16], id[16];
    const char *argv[] = {"sh", "-c", script, "nvmet", tax_nvmet_configfs(), nqn, file, port_text, id, NULL};

    snprintf(port_text, sizeof(port_text), "%d", port);
    snprintf(id, sizeof(id), "%d", 1 + (int)(getpid() % 65000)); /* there may be others' */
    return child_start(c, argv, NULL, err);
}
