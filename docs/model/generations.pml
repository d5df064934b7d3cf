/*
 * Which generation may commit: members, services, leases, authority (README.md).
 * One process picks any enabled action; the verifier tries all orders. A member or service that takes no action is
 * frozen or disconnected, for any time. Any session can break, and a node can connect to any service.
 *
 * A step of a generation: each member sends the record of its part, the step is complete when all have, and each
 * member commits it if its lease is valid. Only then does it send the next record.
 *
 * Worlds: -DN=3 nodes, -DK=1 services (several: a list), -DG=3 generations, -DFIRST=3 (the set of members of the
 * first one; the others are spares), -DDEATHS=1, -DHALVES (node 0 only reaches service 0,
 * nodes 2 and 3 only service 1), -DCUT (after the first generation nodes 0 and 1 are at service 0, the others at
 * service 1, and only node 1 moves). Rules that were given up, or that are known to be unsafe:
 *   OLD_RULE_LOST_IS_OUT    a generation is formed as soon as its members are lost: neither departure nor lease
 *   RULE_ANY_AUTHORITY      each service of the list may form a generation (takeover=any)
 *   RULE_NO_PREDECESSORS    only the last generation that a service knows matters
 *   OLD_RULE_NO_BRANCHES    an older generation that a node was in at another service is ignored
 */
#ifndef N
#define N 3           /* nodes */
#endif
#ifndef K
#define K 1           /* services */
#endif
#ifndef G
#define G 3           /* generations */
#endif
#ifndef FIRST
#define FIRST ((1 << N) - 1)
#endif
#ifdef HALVES
#define REACHES(x, y) ((x) == 1 || ((x) > 1) == (y))
#else
#define REACHES(x, y) true
#endif
#ifndef DEATHS
#define DEATHS N      /* how many nodes may die */
#endif

#ifdef CUT
#define MOVES(x) ((x) == 1)
#else
#define MOVES(x) true
#endif

#define NOWHERE K
/* If there are several services, each needs members of the last generation, so that one of them leaves it: no lease
   matters, and none ends in the model. */
#define LEASES (K == 1)
#define IN(set, i) (((set) >> (i)) & 1)
#define ADD(set, i) set = (set) | (1 << (i))
#define DROP(set, i) set = (set) & ~(1 << (i))
#define SIZE(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))

/* Generations. */
byte top;               /* the newest generation */
byte members[G + 1];    /* a set of nodes */
byte before[G + 1];     /* its predecessor */
byte former[G + 1];     /* the service that formed it */
byte sent[G + 1];       /* members that have sent the record of the current step */
byte whole[G + 1];      /* members that have not committed the complete step */
byte committed;         /* a set of generations: a member has committed a step */
byte late;              /* a set of generations: a step became complete after a later one had committed */

/* Nodes. */
byte alive, runs, leased;  /* sets; leased: a valid lease for the current generation */
byte known[N];             /* the newest generation that it knows, and runs or ran */
byte at[N];                /* the service of its session; NOWHERE */

/* Services: their beliefs. */
byte last[K];           /* the newest generation that it knows */
byte registered[K];     /* nodes with a session */
byte offered[K];        /* registered nodes that run nothing */
byte gone[K];           /* members that are proven dead */
byte waited[K];         /* members that were silent for longer than their lease */
byte assigned[K];       /* members of the last generation that will be notified in their current session */
byte told[K];           /* nodes that have said that they know the last generation */
byte branch[K];         /* generations, reported by nodes, that this service neither formed nor learned of */

byte i, k;              /* used within one action, 0 between actions */
hidden byte j, n, set;
hidden byte one_generation_at_a_time;
#define HOLDS(name, what) name = (what); assert(name)
#define FOR(v, from, to) v = from; do :: v > to -> break :: else ->
#define ROF(v) v++ od

#define DEPTH(g) ((g) == 0 -> 0 : (before[g] == 0 -> 1 : (before[before[g]] == 0 -> 2 : (before[before[before[g]]] == 0 -> 3 : 4))))
#define NEWER(a, b) (DEPTH(a) > DEPTH(b) || (DEPTH(a) == DEPTH(b) && (a) > (b)))

/* MemberCount (R7): enough of a generation's members are `present` that no other service can follow it. */
#define ARE_MOST(k, g, present) ((members[g] & ~((present) | gone[k])) == 0 || \
                                 2 * SIZE(members[g] & (present) & ~gone[k]) > SIZE(members[g]))

/* TakeoverQuorum::Authority (R4, R7). */
#if K == 1 || defined(RULE_ANY_AUTHORITY)
#define ALLOWS(k, present) true
#else
#define ALLOWS(k, present) (last[k] > 0 && ARE_MOST(k, last[k], present))
#endif
/* Departures::FindRunning (R2): one member has certainly left it. */
#ifdef OLD_RULE_LOST_IS_OUT
#define OVER(k) true
#else
#define OVER(k) ((members[last[k]] & (offered[k] | gone[k] | waited[k])) != 0)
#endif

#define ANCESTOR(p, g) ((p) == before[g] || (p) == before[before[g]] || (p) == before[before[before[g]]])
/* Predecessors::OnReported (R10): another service may follow g, because it may follow an older one that this service has
   followed, and of whose members too few know that. */
#define FOLLOWED_UNKNOWN(k, p, g) ((p) != 0 && NEWER(g, p) && !ARE_MOST(k, p, told[k]))
#ifdef OLD_RULE_NO_BRANCHES
#define IS_BRANCH(k, g) false
#else
#define IS_BRANCH(k, g) ((g) > 0 && (g) != last[k] && !ANCESTOR(g, last[k]) && \
                         (FOLLOWED_UNKNOWN(k, before[last[k]], g) || FOLLOWED_UNKNOWN(k, before[before[last[k]]], g)))
#endif
#define BRANCH_ALLOWS(k, g, present) (!IN(branch[k], g) || ARE_MOST(k, g, present))
#if G > 4
#define BRANCHES_ALLOW(k, present) (BRANCH_ALLOWS(k, 2, present) && BRANCH_ALLOWS(k, 3, present) && \
                                    BRANCH_ALLOWS(k, 4, present) && BRANCH_ALLOWS(k, 5, present))
#else
#define BRANCHES_ALLOW(k, present) (BRANCH_ALLOWS(k, 2, present) && BRANCH_ALLOWS(k, 3, present))
#endif

/* Predecessors::FindUnsure (R10), for the generations before the last one. */
#if K == 1 || defined(RULE_NO_PREDECESSORS) || defined(RULE_ANY_AUTHORITY)
#define PREDECESSORS_ALLOW(k, present) true
#else
#define SURE(k, p, present) ((p) == 0 || ARE_MOST(k, p, present))
#define PREDECESSORS_ALLOW(k, present) (SURE(k, before[last[k]], present) && SURE(k, before[before[last[k]]], present) && \
                                        BRANCHES_ALLOW(k, present))
#endif

inline learn(k, g) {
  last[k] = g; gone[k] = 0; waited[k] = 0; told[k] = 0; assigned[k] = 0
}

/* Keeps the branches that another service may still follow, and n if it is one. */
inline account(k) {
  ADD(branch[k], n);
  FOR(j, 0, top)
    if :: IN(branch[k], j) && !IS_BRANCH(k, j) -> DROP(branch[k], j) :: else fi;
  ROF(j);
  n = 0
}

/* ---- actions of nodes */

#define CONNECTED(i) (at[i] < NOWHERE && IN(registered[at[i]], i))

inline send() {
  j = known[i];
  ADD(sent[j], i);
  if
  :: sent[j] != members[j]
  :: else ->
     sent[j] = 0; whole[j] = members[j];
     /* If a later one has committed, this one finishes at most the current step. */
     if
     :: (committed >> (j + 1)) == 0
     :: else -> HOLDS(one_generation_at_a_time, !IN(late, j)); ADD(late, j)
     fi
  fi
}

inline commit() {
  j = known[i];
  DROP(whole[j], i);
  ADD(committed, j)
}

/* Several services: a step is one action, because their generations end with a member that leaves. */
inline step() {
  j = known[i];
  HOLDS(one_generation_at_a_time, (committed >> (j + 1)) == 0);
  ADD(committed, j)
}

/* The node stops in its generation: the service says so, or its group is broken. */
inline stop() {
  DROP(runs, i);
  DROP(leased, i)
}

inline connect() {
  if
  :: at[i] < NOWHERE && at[i] != k -> DROP(assigned[at[i]], i)  /* it offers again when it reconnects */
  :: else
  fi;
  at[i] = k;
  ADD(registered[k], i);
  DROP(waited[k], i);
  n = known[i];
  if :: NEWER(n, last[k]) -> n = last[k]; learn(k, known[i]) :: else fi;
  account(k);
  if :: last[k] == known[i] -> ADD(told[k], i) :: else fi;
  if
  :: IN(runs, i) && last[k] == known[i] -> DROP(offered[k], i)
  :: else -> stop(); ADD(offered[k], i)  /* its generation is over */
  fi
}

inline offer() {
  if :: CONNECTED(i) -> ADD(offered[at[i]], i) :: else fi;
  stop()
}

inline enter() {
  k = at[i];
  known[i] = last[k];
  DROP(assigned[k], i);
  ADD(runs, i); ADD(leased, i); ADD(told[k], i);
  DROP(offered[k], i)
}

inline heartbeat() {
  k = at[i];
  ADD(leased, i); ADD(told[k], i);
}

#define IS_ASSIGNED(i) (CONNECTED(i) && IN(assigned[at[i]], i))

/* ---- actions of services */

inline form() {
  top++;
  members[top] = offered[k];
  before[top] = last[k];
  former[top] = k;
  learn(k, top);
  FOR(j, 0, N - 1)
    if :: at[j] == k && IN(offered[k], j) -> ADD(assigned[k], j) :: else fi;
  ROF(j)
}

/* Members of the generations that a service looks at. */
#if K > 1
#define DECISIVE(k) (members[last[k]] | members[before[last[k]]] | members[before[before[last[k]]]] | (branch[k] -> 15 : 0))
#else
#define DECISIVE(k) 0
#endif

/* Drops irrelevant state: a generation without one of its members completes no step. */
inline tidy() {
  FOR(j, 1, top)
    set = 0;
    FOR(n, 0, N - 1)
      if :: IN(runs, n) && known[n] == j -> ADD(set, n) :: else fi;
    ROF(n);
    whole[j] = whole[j] & set;
    if :: set != members[j] -> sent[j] = 0 :: else fi;
    if :: set == 0 -> DROP(late, j) :: else fi;
  ROF(j);
  FOR(j, 0, K - 1)
    gone[j] = gone[j] & DECISIVE(j);
    waited[j] = waited[j] & members[last[j]] & ~registered[j];
    told[j] = told[j] & DECISIVE(j);
  ROF(j)
}

#define DO(what, text, a, b) d_step { skip; what; printf(text, a, b); tidy(); i = 0; k = 0 }

#define RUNS_IN(g, x) (!IN(members[g], x) || (IN(runs, x) && known[x] == g))
#if N == 2
#define RUN_ALL(g) (RUNS_IN(g, 0) && RUNS_IN(g, 1))
#elif N == 3
#define RUN_ALL(g) (RUNS_IN(g, 0) && RUNS_IN(g, 1) && RUNS_IN(g, 2))
#else
#define RUN_ALL(g) (RUNS_IN(g, 0) && RUNS_IN(g, 1) && RUNS_IN(g, 2) && RUNS_IN(g, 3))
#endif
#if K == 1
#define STEPS(x) \
  :: atomic { IN(runs, x) && RUN_ALL(known[x]) && !IN(sent[known[x]], x) && !IN(whole[known[x]], x) -> \
       i = x; DO(send(), "node %d sends its record in %d\n", x, known[x]) } \
  :: atomic { IN(runs, x) && IN(whole[known[x]], x) && IN(leased, x) -> i = x; DO(commit(), "node %d commits in %d\n", x, known[x]) }
#else
#define STEPS(x) \
  :: atomic { IN(runs, x) && RUN_ALL(known[x]) && FIRST_OF(known[x], x) && CHANGES(known[x]) -> \
       i = x; DO(step(), "the members commit, node %d in %d\n", x, known[x]) }
#define FIRST_OF(g, x) ((members[g] & ((1 << x) - 1)) == 0)
#define CHANGES(g) (!IN(committed, g) || (committed >> (g + 1)) != 0)
#endif

#define NODE(x) \
  STEPS(x) \
  :: atomic { LEASES && IN(leased, x) -> DO(DROP(leased, x), "the lease of node %d in %d is over\n", x, known[x]) } \
  :: atomic { IN(runs, x) -> i = x; DO(offer(), "node %d stops in %d\n", x, known[x]) } \
  :: atomic { IS_ASSIGNED(x) -> i = x; DO(enter(), "node %d enters %d\n", x, known[x]) } \
  :: atomic { IN(runs, x) && !IN(leased, x) && CONNECTED(x) && last[at[x]] == known[x] && LEASES -> \
       i = x; DO(heartbeat(), "node %d has a lease in %d\n", x, known[x]) } \
  :: atomic { IN(alive, x) && SIZE(alive) > N - DEATHS -> DO(DROP(alive, x); DROP(runs, x); DROP(leased, x); known[x] = 0; if :: at[x] < NOWHERE -> DROP(assigned[at[x]], x); at[x] = NOWHERE :: else fi, "node %d dies%c\n", x, 32) } \
  CONNECTS(x, 0) \
  CONNECTS_TO_SECOND(x)

#define CONNECTS(x, y) \
  :: atomic { MOVES(x) && IN(alive, x) && REACHES(x, y) && (at[x] != y || !IN(registered[y], x)) -> \
       i = x; k = y; DO(connect(), "node %d is at service %d\n", x, y) }

#if K > 1
#define CONNECTS_TO_SECOND(x) CONNECTS(x, 1)
#else
#define CONNECTS_TO_SECOND(x)
#endif

#define SERVICE(y) \
  OF_NODE(y, 0) \
  OF_NODE(y, 1) \
  OF_NODE(y, 2) \
  OF_NODE(y, 3) \
  :: atomic { top < G && last[y] > 0 && registered[y] > 0 && registered[y] == offered[y] && ALLOWS(y, offered[y]) && \
              OVER(y) && PREDECESSORS_ALLOW(y, offered[y] | told[y]) -> \
       k = y; DO(form(), "service %d forms %d\n", y, top) }

#define OF_NODE(y, x) \
  :: atomic { x < N && MOVES(x) && IN(registered[y], x) -> DO(DROP(registered[y], x); DROP(offered[y], x), "service %d loses node %d\n", y, x) } \
  :: atomic { K > 1 && x < N && !IN(registered[y], x) && !IN(alive, x) && IN(DECISIVE(y), x) && !IN(gone[y], x) -> \
       DO(ADD(gone[y], x), "service %d proves node %d dead\n", y, x) } \
  :: atomic { LEASES && x < N && !IN(registered[y], x) && IN(members[last[y]], x) && !IN(waited[y], x) && \
              (!IN(leased, x) || known[x] != last[y]) -> \
       DO(ADD(waited[y], x), "service %d has waited for the lease of node %d\n", y, x) }

init {
  d_step {
    top = 1; members[1] = FIRST; former[1] = 0;
    alive = (1 << N) - 1; runs = FIRST; leased = FIRST;
    last[0] = 1; registered[0] = alive; offered[0] = alive & ~FIRST; told[0] = FIRST;
    i = 0;
    FOR(j, 0, N - 1)
      if :: IN(FIRST, j) -> known[j] = 1 :: else fi;
    ROF(j);
#ifdef CUT
    runs = 0; leased = 0;
    registered[0] = 3; offered[0] = 3;
    last[1] = 1; registered[1] = alive & ~3; offered[1] = alive & ~3; told[1] = FIRST & ~3;
    FOR(j, 0, N - 1)
      at[j] = j / 2;
    ROF(j);
#endif
    skip
  }
end:
  do
  NODE(0)
  NODE(1)
  SERVICE(0)
#if N > 2
  NODE(2)
#endif
#if N > 3
  NODE(3)
#endif
#if K > 1
  SERVICE(1)
#endif
  od
}
