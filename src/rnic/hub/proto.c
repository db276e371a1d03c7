/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/proto.h"

#include <errno.h>

static bool is_whole(const struct fl_hub_msg *msg, size_t len)
{
    return len == sizeof(*msg) && msg->magic == FL_HUB_MAGIC && msg->nr <= FL_HUB_BATCH;
}

bool fl_hub_hello_ok(const struct fl_hub_msg *msg, size_t len)
{
    return is_whole(msg, len) && msg->type == FL_HUB_HELLO;
}

static void claim(struct fl_hub_table *table, uint32_t slot, const struct fl_hub_msg *msg,
                  struct fl_hub_msg *reply)
{
    for (uint32_t i = 0; i < msg->nr; i++) {
        int rc = msg->values[i] < FL_HUB_BLOCKS ? fl_hub_block_claim(table, slot, (uint32_t)msg->values[i])
                                                : -EINVAL;
        if (rc == 0)
            reply->values[0] |= UINT64_C(1) << i;
        else if (!reply->status)
            reply->status = rc;
    }
}

static void listen_all(struct fl_hub_table *table, uint32_t slot, const struct fl_hub_msg *msg,
                       struct fl_hub_msg *reply)
{
    for (uint32_t i = 0; i < msg->nr; i++) {
        bool early = msg->is_new && table->settling && !fl_hub_slot_of_service(table, msg->values[i]);
        int rc = early ? -EAGAIN : fl_hub_listen(table, slot, msg->values[i]);
        if (rc && !reply->status)
            reply->status = rc;
    }
}

bool fl_hub_handle(struct fl_hub_table *table, uint32_t slot, const struct fl_hub_msg *msg, size_t len,
                   struct fl_hub_msg *reply, bool *broken)
{
    int block;
    *broken = !is_whole(msg, len);
    if (*broken)
        return false;
    *reply = (struct fl_hub_msg){.magic = FL_HUB_MAGIC, .type = FL_HUB_REPLY, .seq = msg->seq};
    switch (msg->type) {
    case FL_HUB_GET:
        block = fl_hub_block_get(table, slot);
        if (block < 0)
            reply->status = block;
        else
            reply->values[0] = (uint64_t)block;
        return true;
    case FL_HUB_CLAIM:
        claim(table, slot, msg, reply);
        return true;
    case FL_HUB_LISTEN:
        listen_all(table, slot, msg, reply);
        return true;
    case FL_HUB_UNLISTEN:
        for (uint32_t i = 0; i < msg->nr; i++)
            fl_hub_unlisten(table, slot, msg->values[i]);
        return false;
    default:
        *broken = true;
        return false;
    }
}
