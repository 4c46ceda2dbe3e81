/* fork_call.S between a caller and a runtime that both check their arguments. */
#include "teams.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#define COUNT_MAX 40

typedef void (*function)(void);

void __kmpc_fork_call(void *place, int count, void *body, ...);
function kmpc_enter(struct region *region, void *place, const void *caller);
void kmpc_leave(const struct region *region);
int main(void);

static struct lane some_lane;
static bool accounted;
static const void *caller_told;
static int entered, left, ran, checks, failures;

static void check(bool holds, const char *what, int count)
{
    checks++;
    if (!holds) {
        failures++;
        printf("%s, %d arguments, %s\n", what, count, accounted ? "accounted" : "passed on");
    }
}

static _Unwind_Reason_Code find_main(struct _Unwind_Context *context, void *found)
{
    const void *start = (const void *)_Unwind_GetRegionStart(context);
    if (start == (const void *)main)
        *(bool *)found = true;
    return _URC_NO_REASON;
}

__attribute__((noinline)) static void fork_call(void *place, int count, void *body, ...)
{
    va_list more;
    bool right = true, unwound = false;
    double aligned __attribute__((aligned(16))) = 0;
    va_start(more, body);
    for (int i = 0; i < count; i++)
        right &= va_arg(more, char *) == (char *)1000 + i;
    va_end(more);
    check(right, "the arguments arrive", count);
    check(place == &some_lane && body == (void *)check, "and those in front", count);
    volatile uintptr_t address = (uintptr_t)&aligned;
    check(address % 16 == 0, "the stack is aligned", count);
    check((__builtin_return_address(0) == caller_told) == !accounted, "the return address", count);
    _Unwind_Backtrace(find_main, &unwound);
    check(unwound, "can be unwound", count);
    ran++;
}

function kmpc_enter(struct region *region, void *place, const void *caller)
{
    memset(region, 0xff, sizeof *region);
    region->lane = accounted ? &some_lane : NULL;
    region->word = 7;
    caller_told = caller;
    entered += place == &some_lane;
    return (function)fork_call;
}

void kmpc_leave(const struct region *region)
{
    left += region->lane == &some_lane && region->word == 7;
}

#define A(n) (char *)1000 + (n)
#define TEN(n)                                                                                     \
    A(n), A((n) + 1), A((n) + 2), A((n) + 3), A((n) + 4), A((n) + 5), A((n) + 6), A((n) + 7),      \
        A((n) + 8), A((n) + 9)

int main(void)
{
    for (int round = 0; round < 2 * (COUNT_MAX + 1); round++) {
        accounted = round % 2 != 0;
        /* More arguments than the count states are passed; the surplus must not be needed. */
        __kmpc_fork_call(&some_lane, round / 2, (void *)check, TEN(0), TEN(10), TEN(20), TEN(30));
    }
    const int calls = 2 * (COUNT_MAX + 1);
    check(entered == calls && ran == calls && left == calls / 2, "each is called once", 0);
    printf("%d checks\n", checks);
    return failures != 0;
}
