#include "WattfoldLB.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "conv-ccs.h"

#include "IdleNap.h"

/* How much more than the mean a PE may keep before it gives objects away. */
static const double kSlack = 1.05;
static const size_t kRequestBytesMax = 1 << 17;

extern int quietModeRequested;
/* With it, objects say at each balancing step what they are packed up to. */
extern bool _lb_psizer_on;

namespace {

struct Map {
  unsigned long long id;
  std::vector<char> use;
};

/* What a map costs: bytes of the objects that move for it, and the time from when all PEs have come to
   the balancing step until all objects are in place. */
struct Cost {
  double began_s;
  unsigned long long stalled_ns, moved_bytes;
};

struct Decided {
  Map map;
  Cost cost;
};

/* Of PE 0 only: requests arrive there and decisions are made there. */
struct Maps {
  Map wanted, in_force;
  /* Balancing steps whose objects are on their way, oldest first. */
  std::deque<Decided> decided;
  bool cost_known;
  Cost cost;
  std::vector<unsigned long long> objects;
  std::vector<int> pids, nodes;
  CmiUInt8 host;
};

Maps *maps = NULL;

CmiUInt8 host_number() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  CmiUInt8 number = 14695981039346656037ull; /* FNV-1a */
  for (const char *at = name; *at != '\0'; at++) number = (number ^ (unsigned char)*at) * 1099511628211ull;
  return number;
}

template <typename Row>
void append_row(std::string &text, const Row &row) {
  char number[32];
  for (size_t at = 0; at < row.size(); at++) {
    snprintf(number, sizeof number, "%s%llu", at ? "," : " ", (unsigned long long)row[at]);
    text += number;
  }
}

std::string digits(const std::vector<char> &use) {
  std::string text;
  for (size_t pe = 0; pe < use.size(); pe++) text += use[pe] ? '1' : '0';
  return text;
}

void reply_state(bool with_cost) {
  char numbers[96];
  snprintf(numbers, sizeof numbers, "WFMAP1 %llu %llu ", maps->wanted.id, maps->in_force.id);
  std::string text = numbers + digits(maps->in_force.use);
  append_row(text, maps->objects);
  append_row(text, maps->pids);
  if (std::count(maps->nodes.begin(), maps->nodes.end(), 0) < (long)maps->nodes.size())
    append_row(text, maps->nodes);
  if (with_cost && maps->cost_known) {
    snprintf(numbers, sizeof numbers, " stalled=%llu moved=%llu", maps->cost.stalled_ns, maps->cost.moved_bytes);
    text += numbers;
  }
  CcsSendReply((int)text.size(), text.data());
}

/* Takes "WFMAP1 <id> <0s and 1s>"; what is wrong with it, or NULL. */
const char *parse(const std::string &text, Map &map) {
  const char *lead = "WFMAP1 ";
  if (text.compare(0, strlen(lead), lead) != 0) return "not a map";
  const char *number = text.c_str() + strlen(lead);
  char *end = NULL;
  map.id = strtoull(number, &end, 10);
  if (end == number || *number == '-' || *end != ' ' || map.id == 0) return "not an id";
  std::string word = end + 1;
  if (word.size() != (size_t)CkNumPes()) return "not as many entries as PEs";
  if (word.find_first_not_of("01") != std::string::npos) return "not only 0 and 1";
  if (word.find('1') == std::string::npos) return "no PE left";
  map.use.assign(word.begin(), word.end());
  for (size_t pe = 0; pe < map.use.size(); pe++) map.use[pe] -= '0';
  return NULL;
}

void on_set(void *, int size, const void *data) {
  Map map;
  const char *wrong = "longer than any map";
  if (size >= 0 && (size_t)size <= kRequestBytesMax)
    wrong = parse(std::string((const char *)data, (size_t)size), map);
  if (wrong != NULL) {
    std::string text = std::string("WFMAP1 error ") + wrong;
    CcsSendReply((int)text.size(), text.data());
    return;
  }
  maps->wanted = map;
  /* The PE that decides stays 0: the state is here. */
  LBManagerObj()->set_avail_vector(map.use, 0);
  reply_state(false);
}

void on_get(void *, int size, const void *data) {
  const std::string asked((const char *)data, size > 0 ? (size_t)size : 0);
  reply_state(asked == "cost");
}

void start_maps() {
  maps = new Maps;
  maps->wanted.id = 0;
  maps->wanted.use.assign(CkNumPes(), 1);
  maps->in_force = maps->wanted;
  maps->cost_known = false;
  maps->objects.assign(CkNumPes(), 0);
  maps->pids.assign(CkNumPes(), 0);
  maps->nodes.assign(CkNumPes(), 0);
  maps->host = host_number();
  CcsRegisterHandlerFn("setmap_wattfold", on_set, NULL);
  CcsRegisterHandlerFn("getmap_wattfold", on_get, NULL);
  /* Says that the handlers are there, to who looks at our open files; closed with the process. */
  if (memfd_create("wattfold-map", MFD_CLOEXEC) < 0) CkPrintf("WattfoldLB> no memfd: the first map comes late\n");
}

typedef std::pair<double, int> Weighed; /* load, PE or object */

/* Measured loads may all be zero at the first step: then every object counts the same. */
double weight_of(const BaseLB::LDStats *stats, int object, bool even) {
  return even ? 1.0 : stats->objData[object].wallTime;
}

/* Objects stay where they may be and fit; the others go, heaviest first, to the least loaded PE. */
void assign(BaseLB::LDStats *stats, const std::vector<char> &use) {
  const int objects = (int)stats->objData.size(), pes = (int)use.size();
  double total = 0;
  for (int at = 0; at < objects; at++) total += stats->objData[at].wallTime;
  const bool even = total <= 0;
  if (even) total = objects;
  const double most = kSlack * total / std::count(use.begin(), use.end(), 1);

  std::vector<Weighed> order;
  std::vector<double> load(pes, 0.0);
  std::vector<int> homeless;
  for (int at = 0; at < objects; at++) {
    const double weight = weight_of(stats, at, even);
    if (stats->objData[at].migratable)
      order.push_back(Weighed(weight, at));
    else
      load[stats->from_proc[at]] += weight;
  }
  std::sort(order.begin(), order.end(), std::greater<Weighed>());
  for (size_t at = 0; at < order.size(); at++) {
    const int pe = stats->from_proc[order[at].second];
    if (use[pe] && (load[pe] == 0 || load[pe] + order[at].first <= most))
      load[pe] += order[at].first;
    else
      homeless.push_back((int)at);
  }
  std::priority_queue<Weighed, std::vector<Weighed>, std::greater<Weighed> > least;
  for (int pe = 0; pe < pes; pe++)
    if (use[pe]) least.push(Weighed(load[pe], pe));
  for (size_t at = 0; at < homeless.size(); at++) {
    const Weighed object = order[homeless[at]];
    const Weighed target = least.top();
    least.pop();
    stats->assign(object.second, target.second);
    least.push(Weighed(target.first + object.first, target.second));
  }
}

/* Which node of a job over several this process is on, from 1; 0 = there are not several. */
int node_of_job() {
  const char *ranks = getenv("WATTFOLD_RANKS"), *rank = getenv("WATTFOLD_RANK");
  return ranks != NULL && rank != NULL && atoi(ranks) > 1 ? atoi(rank) + 1 : 0;
}

bool without_objects() { return LBManagerObj()->GetObjDataSz() == 0; }

} /* namespace */

static void lbinit() {
  LBRegisterBalancer<WattfoldLB>("WattfoldLB", "Keeps objects on the processors of the job's map");
}

WattfoldLB::WattfoldLB(const CkLBOptions &options) : CBase_WattfoldLB(options) {
  lbname = "WattfoldLB";
  _lb_psizer_on = true;
  if (CkMyPe() == 0) {
    start_maps();
    if (!quietModeRequested) CkPrintf("CharmLB> WattfoldLB created.\n");
  }
  thisProxy[0].process(CkMyPe(), (int)getpid(), host_number(), node_of_job());
  wattfold::nap_when_idle(without_objects);
}

void WattfoldLB::process(int pe, int pid, CmiUInt8 host, int node) {
  if (maps == NULL || pe < 0 || pe >= CkNumPes()) return;
  maps->nodes[pe] = node;
  if (host == maps->host) maps->pids[pe] = pid;
}

void WattfoldLB::work(LDStats *stats) {
  const double began_s = CkWallTimer();
  maps->decided.push_back({maps->wanted, {began_s, 0, 0}});
  Decided &decided = maps->decided.back();
  for (size_t pe = 0; pe < stats->procs.size(); pe++)
    stats->procs[pe].available = decided.map.use[pe];
  assign(stats, decided.map.use);
  for (size_t at = 0; at < stats->to_proc.size(); at++)
    if (stats->to_proc[at] != stats->from_proc[at])
      decided.cost.moved_bytes += pup_decodeSize(stats->objData[at].pupSize);
}

void WattfoldLB::LoadbalanceDone(int balancing) {
  /* A program on one PE has nothing to decide. */
  if (CkMyPe() == 0 && !balancing) maps->decided.push_back({maps->wanted, {CkWallTimer(), 0, 0}});
  std::vector<int> here(CkNumPes(), 0);
  here[CkMyPe()] = LBManagerObj()->GetObjDataSz();
  contribute(here, CkReduction::sum_int, CkCallback(CkReductionTarget(WattfoldLB, arrived), thisProxy[0]));
}

void WattfoldLB::arrived(int n, int *objects) {
  if (maps->decided.empty()) return;
  const Decided decided = maps->decided.front();
  maps->decided.pop_front();
  maps->objects.assign(objects, objects + n);
  if (decided.map.id == maps->in_force.id) return; /* A step in which only loads were balanced. */
  maps->in_force = decided.map;
  maps->cost = decided.cost;
  maps->cost.stalled_ns = (unsigned long long)((CkWallTimer() - decided.cost.began_s) * 1e9);
  maps->cost_known = true;
}

#include "WattfoldLB.def.h"
