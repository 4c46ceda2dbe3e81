/* Lets a PE of the netlrts layer that has nothing to do wait for its sockets asleep.
 *
 * Such a PE asks for messages without pause, and takes half of a core from whoever is there. Slowing
 * it by a lower priority would stall the job at every reduction. Here what arrives wakes it at once,
 * and the longer nothing does the longer it waits, up to half a second; a program that has timers of
 * its own on a PE without objects meets them so late. One PE a process; other layers are left alone.
 */
#ifndef WATTFOLD_IDLE_NAP_H
#define WATTFOLD_IDLE_NAP_H

#include <cstdlib>
#include <vector>

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>

#include "converse.h"

namespace wattfold {

static const int kNapMsMin = 5, kNapMsMax = 500;
/* A socket that had something to read at the begin of so many naps in a row, when the layer has just had
   its turn, is taken for one that it does not read, until it has nothing to read: data may come that fast. */
static const int kUnservedNaps = 50;

class IdleNap {
  /* All of them, and those that may end a nap: a negative number is one that may not. */
  std::vector<struct pollfd> sockets, waited_for;
  std::vector<int> in_a_row;
  bool (*may)();
  int next_ms;

  static bool of_network(int fd) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &size) != 0) return false;
    return name.ss_family == AF_INET || name.ss_family == AF_INET6;
  }

  void find_sockets() {
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) return;
    while (struct dirent *entry = readdir(folder)) {
      const int fd = atoi(entry->d_name);
      if (entry->d_name[0] == '.' || fd == dirfd(folder) || !of_network(fd)) continue;
      struct pollfd one = {fd, POLLIN, 0};
      sockets.push_back(one);
      in_a_row.push_back(0);
    }
    closedir(folder);
  }

public:
  explicit IdleNap(bool (*allowed)()) : may(allowed), next_ms(kNapMsMin) { find_sockets(); }

  bool possible() const { return !sockets.empty(); }

  void nap() {
    if (!may()) return;
    poll(sockets.data(), sockets.size(), 0);
    bool ready = leave_out_unserved();
    if (!ready) ready = poll(waited_for.data(), waited_for.size(), next_ms) > 0;
    next_ms = ready ? kNapMsMin : (2 * next_ms < kNapMsMax ? 2 * next_ms : kNapMsMax);
  }

  /* Whether one of the others has something to read now. */
  bool leave_out_unserved() {
    bool ready = false;
    waited_for = sockets;
    for (size_t at = 0; at < sockets.size(); at++) {
      const bool here = sockets[at].revents != 0;
      in_a_row[at] = here ? in_a_row[at] + 1 : 0;
      if (in_a_row[at] >= kUnservedNaps)
        waited_for[at].fd = -1;
      else
        ready = ready || here;
    }
    return ready;
  }

  static void when_idle(void *self) { ((IdleNap *)self)->nap(); }
};

/* From now on this PE naps when it is idle and `may` says so. Call it once, on the PE. */
inline void nap_when_idle(bool (*may)()) {
  /* charmrun sets NETSTART for processes of the layer that polls. */
  if (getenv("NETSTART") == NULL || CmiMyNodeSize() != 1) return;
  IdleNap *napper = new IdleNap(may);
  if (!napper->possible()) {
    delete napper;
    return;
  }
  CcdCallOnConditionKeep(CcdPROCESSOR_STILL_IDLE, IdleNap::when_idle, napper);
}

} /* namespace wattfold */

#endif
