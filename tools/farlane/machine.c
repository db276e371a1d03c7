/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void cpu_model(char *buf, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];

    snprintf(buf, size, "unknown");
    while (f && fgets(line, sizeof(line), f)) {
        const char *value = strchr(line, ':');

        if (strncmp(line, "model name", 10) || !value)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(buf, size, "%s", value + 2);
        break;
    }
    if (f)
        fclose(f);
}

json_t *machine_json(void)
{
    struct utsname name;
    char model[256];

    uname(&name);
    cpu_model(model, sizeof(model));
    return json_pack("{s:s, s:s, s:s, s:i}", "host", name.nodename, "kernel", name.release, "cpu", model,
                     "cpus", (int)sysconf(_SC_NPROCESSORS_ONLN));
}

json_t *date_json(void)
{
    const time_t now = time(NULL);
    char date[32];
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
    return json_string(date);
}

void machine_tell_waiting(double share, const char *of, const char *who, char *text, size_t len)
{
    snprintf(text, len,
             "Programs waited for a CPU for up to %.0f %% of a %s (%s): others ran as well, or it keeps more "
             "threads busy "
             "than this machine has CPUs.",
             share * 100, of, who);
}
