/* A load balancer that keeps objects off processors the job may not use now.
 *
 * Link it into a Charm++ 8 program and run that with "+balancer WattfoldLB". The processor map comes
 * over CCS (handlers setmap_wattfold and getmap_wattfold on PE 0, texts as in
 * proto/src/wattfold/contract/processor_map.py) and is applied at the next AtSync. PE 0 stays the
 * place where decisions are made, even outside the map. Processes are neither ended nor started. On
 * the netlrts layer a PE without objects waits for messages asleep (IdleNap.h).
 */
#ifndef WATTFOLD_LB_H
#define WATTFOLD_LB_H

#include "CentralLB.h"
#include "WattfoldLB.decl.h"

class WattfoldLB : public CBase_WattfoldLB {
public:
  WattfoldLB(const CkLBOptions &options);
  WattfoldLB(CkMigrateMessage *message) : CBase_WattfoldLB(message) {}

  void work(LDStats *stats);
  void process(int pe, int pid, CmiUInt8 host, int node);
  void arrived(int n, int *objects);
  void pup(PUP::er &p) {}

protected:
  /* Called on every PE when all that it gets has arrived, also when nothing was moved. */
  void LoadbalanceDone(int balancing);

private:
  /* Every PE must give the same answer, and only PE 0 knows the map. */
  bool QueryBalanceNow(int) { return true; }
};

#endif
