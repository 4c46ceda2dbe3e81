/* Blocks that work, and meet the load balancer after each round: they follow the processor map when the
 * program is linked with WattfoldLB and run with "+balancer WattfoldLB". Prints, after every round in
 * which it changed, how many blocks are on every PE; at the end the rounds and the sum of all blocks,
 * which depends on nothing but these. Runs until the file named in its argument is there, or for so
 * many rounds (0: no matter how many); every block takes so many bytes along when it moves, and a round is so
 * many turns of work for each (a thousand take about a microsecond).
 *
 *     charmrun ++local +p4 ./blocks STOPFILE [ROUNDS [BYTES [TURNS]]] +balancer WattfoldLB
 */
#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

#include "blocks.decl.h"
#include "pup_stl.h"

/*readonly*/ CProxy_Main main_proxy;
/*readonly*/ int block_count;
/*readonly*/ int block_bytes;
/*readonly*/ int block_turns;

static const int kBlocks = 32;
static const int kTurns = 80000;
static const int kBytes = 1000;

class Main : public CBase_Main {
  CProxy_Block blocks;
  std::string stop;
  std::vector<int> last;
  CmiUInt8 rounds, rounds_max;

public:
  Main(CkArgMsg *message) : rounds(0) {
    stop = message->argc > 1 ? message->argv[1] : "stop";
    rounds_max = message->argc > 2 ? strtoull(message->argv[2], NULL, 10) : 0;
    block_bytes = message->argc > 3 ? atoi(message->argv[3]) : kBytes;
    block_turns = message->argc > 4 ? atoi(message->argv[4]) : kTurns;
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
    p | rounds;
    p | rounds_max;
  }

  void counted(int n, int *counts) {
    std::vector<int> now(counts, counts + n);
    if (now != last) {
      std::string text;
      for (int pe = 0; pe < n; pe++) text += (pe ? ", " : "") + std::to_string(now[pe]);
      CkPrintf("objects [%s]\n", text.c_str());
      last = now;
    }
    rounds++;
    if (rounds == rounds_max || access(stop.c_str(), F_OK) == 0)
      blocks.total();
    else
      blocks.go();
  }

  void summed(CmiUInt8 sum) {
    CkPrintf("end %llu %llu\n", (unsigned long long)rounds, (unsigned long long)sum);
    CkExit();
  }
};

class Block : public CBase_Block {
  CmiUInt8 state;
  std::vector<unsigned char> data;

public:
  Block() : state(thisIndex), data(block_bytes, (unsigned char)thisIndex) { usesAtSync = true; }
  Block(CkMigrateMessage *) {}

  void pup(PUP::er &p) {
    p | state;
    p | data;
  }

  void go() {
    /* A generator of random numbers: every turn needs the one before. */
    for (int turn = 0; turn < block_turns; turn++) state = state * 6364136223846793005ull + thisIndex;
    AtSync();
  }

  void ResumeFromSync() {
    std::vector<int> mine(CkNumPes(), 0);
    mine[CkMyPe()] = 1;
    contribute(mine, CkReduction::sum_int, CkCallback(CkReductionTarget(Main, counted), main_proxy));
  }

  void total() {
    CmiUInt8 sum = state;
    for (size_t at = 0; at < data.size(); at++) sum += data[at];
    contribute(sizeof sum, &sum, CkReduction::sum_ulong_long, CkCallback(CkReductionTarget(Main, summed), main_proxy));
  }
};

#include "blocks.def.h"
