#include "callbacks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct {
        wattfold_callback function;
        void *context;
        bool runs;
        uint32_t generation; /* so that an old number does not remove a new entry */
    } slot[WATTFOLD_CALLBACKS_MAX];
    pthread_t runner;
    bool running;
} callbacks = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static int number_of(int slot)
{
    return (int)(callbacks.slot[slot].generation % 0x400000u) * WATTFOLD_CALLBACKS_MAX + slot;
}

int callbacks_add(wattfold_callback callback, void *context)
{
    int number = -1;
    pthread_mutex_lock(&callbacks.lock);
    for (int i = 0; i < WATTFOLD_CALLBACKS_MAX && number < 0; i++) {
        if (callbacks.slot[i].function != NULL || callbacks.slot[i].runs)
            continue;
        callbacks.slot[i].function = callback;
        callbacks.slot[i].context = context;
        callbacks.slot[i].generation++;
        number = number_of(i);
    }
    pthread_mutex_unlock(&callbacks.lock);
    return number;
}

void callbacks_remove(int number)
{
    if (number < 0)
        return;
    const int slot = number % WATTFOLD_CALLBACKS_MAX;
    pthread_mutex_lock(&callbacks.lock);
    if (number_of(slot) == number) {
        callbacks.slot[slot].function = NULL;
        const bool inside = callbacks.running && pthread_equal(callbacks.runner, pthread_self());
        while (callbacks.slot[slot].runs && !inside)
            pthread_cond_wait(&callbacks.ended, &callbacks.lock);
    }
    pthread_mutex_unlock(&callbacks.lock);
}

void callbacks_run(const wattfold_mask *mask)
{
    pthread_mutex_lock(&callbacks.lock);
    callbacks.runner = pthread_self();
    callbacks.running = true;
    for (int i = 0; i < WATTFOLD_CALLBACKS_MAX; i++) {
        const wattfold_callback function = callbacks.slot[i].function;
        void *context = callbacks.slot[i].context;
        if (function == NULL)
            continue;
        callbacks.slot[i].runs = true;
        pthread_mutex_unlock(&callbacks.lock);
        function(mask, context);
        pthread_mutex_lock(&callbacks.lock);
        callbacks.slot[i].runs = false;
        pthread_cond_broadcast(&callbacks.ended);
    }
    callbacks.running = false;
    pthread_mutex_unlock(&callbacks.lock);
}

void callbacks_after_fork(void)
{
    pthread_mutex_init(&callbacks.lock, NULL);
    pthread_cond_init(&callbacks.ended, NULL);
    for (int i = 0; i < WATTFOLD_CALLBACKS_MAX; i++) {
        callbacks.slot[i].function = NULL;
        callbacks.slot[i].runs = false;
    }
    callbacks.running = false;
}
