/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "machine.h"
#include "tax.h"

static json_t *figure_json(struct tax_figure f)
{
    if (!f.known)
        return json_null();
    return json_pack("{s:f, s:f, s:f}", "median", f.median, "least", f.least, "most", f.most);
}

static json_t *path_json(const struct tax *tax, const struct tax_path *p)
{
    static const struct {
        const char *key;
        enum tax_column column;
    } columns[] = {{"mean_us", TAX_MEAN},
                   {"p50_us", TAX_P50},
                   {"p99_us", TAX_P99},
                   {"p999_us", TAX_P999},
                   {"iops", TAX_RATE},
                   {"gb_per_s", TAX_GBPS},
                   {"host_cores_per_miops", TAX_HOST},
                   {"target_cores_per_miops", TAX_TARGET}};
    json_t *json = json_pack("{s:s, s:s, s:s, s:s?, s:s}", "key", p->key, "name", p->name, "url", p->url,
                             "environment", p->env, "command", p->command);
    size_t i;

    if (!p->nr_rounds) {
        json_object_set_new(json, "not_measured", json_string(p->why_not));
        return json;
    }
    for (i = 0; i < FL_ARRAY_LEN(columns); i++)
        json_object_set_new(json, columns[i].key, figure_json(tax_figure(p, columns[i].column)));
    if (tax_base(tax) && tax_base(tax) != p) {
        json_t *added = json_object();

        for (i = 0; i < 4; i++)
            json_object_set_new(added, columns[i].key, figure_json(tax_added(tax, p, columns[i].column)));
        json_object_set_new(json, "added", added);
    }
    json_object_set_new(json, "path", p->way[0] ? json_string(p->way) : json_null());
    json_object_set_new(json, "copies_per_byte", p->copies < 0 ? json_null() : json_real(p->copies));
    json_object_set_new(json, "copies_by", p->copies < 0 ? json_null() : json_string("design"));
    return json;
}

json_t *tax_json(const struct tax *tax)
{
    json_t *paths = json_array();
    uint32_t i;

    for (i = 0; i < tax->nr_paths; i++)
        json_array_append_new(paths, path_json(tax, &tax->paths[i]));
    return json_pack("{s:s, s:o, s:o, s:s?, s:s?, s:I, s:i, s:f, s:f, s:f, s:o}", "farlane", FARLANE_VERSION,
                     "date", date_json(), "machine", machine_json(), "device",
                     tax->spec[0] ? tax->spec : NULL, "device_how", tax->how[0] ? tax->how : NULL, "size", (json_int_t)tax->size, "rounds",
                     (int)tax->nr_rounds, "seconds", tax->seconds, "took_s", tax->took, "disturbed",
                     tax_disturbance(tax), "paths", paths);
}
