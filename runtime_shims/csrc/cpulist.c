#include "cpulist.h"

#include <string.h>

struct cursor {
    const char *at;
    const char *end;
};

static bool number(struct cursor *cursor, unsigned *value)
{
    if (cursor->at == cursor->end || *cursor->at < '0' || *cursor->at > '9')
        return false;
    *value = 0;
    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
        *value = *value * 10 + (unsigned)(*cursor->at - '0');
        if (*value >= WATTFOLD_MASK_CPUS)
            return false;
    }
    return true;
}

static bool skip(struct cursor *cursor, char wanted)
{
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

bool cpulist_parse(const char *text, size_t text_bytes, wattfold_mask *out)
{
    struct cursor cursor = {text, text + text_bytes};
    memset(out->bits, 0, sizeof out->bits);
    out->cores = 0;
    if (text_bytes == 0)
        return true;
    do {
        unsigned first, last;
        if (!number(&cursor, &first))
            return false;
        last = first;
        if (skip(&cursor, '-') && (!number(&cursor, &last) || last < first))
            return false;
        for (unsigned cpu = first; cpu <= last; cpu++) {
            const uint64_t bit = UINT64_C(1) << (cpu % 64);
            out->cores += (out->bits[cpu / 64] & bit) == 0;
            out->bits[cpu / 64] |= bit;
        }
    } while (skip(&cursor, ','));
    return cursor.at == cursor.end;
}
