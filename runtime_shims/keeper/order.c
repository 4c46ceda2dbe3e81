#include "order.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

int order_read(int fd, struct order *order)
{
    struct fields fields;
    if (fields_read(fd, &fields) == NULL)
        return errno == 0 ? -1 : errno;
    memset(order, 0, sizeof *order);
    if (fields_number(&fields, -1) != KEEPER_VERSION)
        return EPROTO;
    order->argv = fields_texts(&fields);
    order->env = fields_texts(&fields);
    order->cwd = fields_text(&fields);
    order->stdout_path = fields_text(&fields);
    order->stderr_path = fields_text(&fields);
    order->interpreter = fields_texts(&fields);
    order->snapshot_path = fields_text(&fields);
    order->keep_output = fields_number(&fields, 0) != 0;
    order->affinity = fields_text(&fields);
    order->procs_paths = fields_texts(&fields);
    const long long uid = fields_number(&fields, -1), gid = fields_number(&fields, -1);
    order->changes_user = uid >= 0;
    order->uid = (uid_t)uid;
    order->gid = (gid_t)gid;
    order->user = fields_text(&fields);
    order->exit_path = fields_text(&fields);
    order->agent_pid_path = fields_text(&fields);
    order->stopped_path = fields_text(&fields);
    order->files_soft_max = fields_number(&fields, -1);
    order->processes_max = fields_number(&fields, 0);
    order->groups = fields_texts(&fields);
    order->umask = (mode_t)fields_number(&fields, 022);
    order->limits = fields_texts(&fields);
    order->inherited = fields_texts(&fields);
    order->state_dir = fields_text(&fields);
    order->stand_in = fields_texts(&fields);
    order->script = fields_bytes(&fields, &order->script_bytes);
    const bool account = uid < 0 ? gid < 0 : gid >= 0 && uid < UINT32_MAX && gid < UINT32_MAX;
    const bool sound = fields.valid && fields.at == fields.end && account &&
                       order->argv.count > 0 && order->limits.count % 2 == 0 &&
                       order->stand_in.count > 0;
    return sound ? 0 : EPROTO;
}
