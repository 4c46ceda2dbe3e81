/* Blocks that work, and meet the load balancer every few steps: follows the processor map when it is
 * linked with WattfoldLB and run with "+balancer WattfoldLB". Prints, after every balancing step in
 * which it changed, how many blocks are on every PE. Runs until the file named in its argument is there.
 *
 *     charmrun ++local +p4 ./blocks STOPFILE +balancer WattfoldLB
 */
#include <string>
#include <vector>

#include <unistd.h>

#include "blocks.decl.h"
#include "pup_stl.h"

/*readonly*/ CProxy_Main main_proxy;
/*readonly*/ int block_count;

static const int kStepsPerBalance = 4;
static const int kBlocks = 32;

class Main : public CBase_Main {
  CProxy_Block blocks;
  std::string stop;
  std::vector<int> last;

public:
  Main(CkArgMsg *message) {
    stop = message->argc > 1 ? message->argv[1] : "stop";
    delete message;
    main_proxy = thisProxy;
    block_count = kBlocks;
    blocks = CProxy_Block::ckNew(block_count);
    blocks.go();
  }
  /* Built with --enable-shrinkexpand, the program is restarted with this. */
  Main(CkMigrateMessage *message) : CBase_Main(message) { main_proxy = thisProxy; }

  void pup(PUP::er &p) {
    p | blocks;
    p | stop;
    p | last;
  }

  void counted(int n, int *counts) {
    std::vector<int> now(counts, counts + n);
    if (now != last) {
      std::string text;
      for (int pe = 0; pe < n; pe++) text += (pe ? ", " : "") + std::to_string(now[pe]);
      CkPrintf("objects [%s]\n", text.c_str());
      last = now;
    }
    if (access(stop.c_str(), F_OK) == 0)
      CkExit();
    else
      blocks.go();
  }
};

class Block : public CBase_Block {
  double sum;

public:
  Block() : sum(0) { usesAtSync = true; }
  Block(CkMigrateMessage *) {}

  void pup(PUP::er &p) { p | sum; }

  void go() {
    for (int step = 0; step < kStepsPerBalance; step++)
      for (int at = 1; at < 20000; at++) sum += 1.0 / at;
    AtSync();
  }

  void ResumeFromSync() {
    std::vector<int> mine(CkNumPes(), 0);
    mine[CkMyPe()] = 1;
    contribute(mine, CkReduction::sum_int, CkCallback(CkReductionTarget(Main, counted), main_proxy));
  }
};

#include "blocks.def.h"
