/*
 * Which generation may commit: members, services, leases, authority (README.md).
 * One process picks any enabled action; the verifier tries all orders. A member or a service that takes no action is
 * frozen or cut off, for any time. Any session may break, and a node may go to any service.
 *
 * A step of a generation: each member sends the record of its part, the step is whole when all have, and each member
 * commits it if its lease is valid. It sends the next record after that.
 *
 * Worlds: -DN=3 nodes, -DK=1 services (several: a list), -DG=3 generations, -DFIRST=3 (the set of members of the
 * first one; the others are spares), -DDEATHS=1, -DHALVES (node 0 reaches service 0 alone,
 * node 2 service 1). Rules that were given up, or that are known to be unsafe:
 *   OLD_RULE_LOST_IS_OUT    a generation is formed as soon as its members are lost: neither departure nor lease
 *   RULE_ANY_AUTHORITY      each service of the list may form a generation (takeover=any)
 *   RULE_NO_PREDECESSORS    the last generation that a service knows decides alone
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
#define REACHES(x, y) ((x) == 1 || (x) == 2 * (y))
#else
#define REACHES(x, y) true
#endif
#ifndef DEATHS
#define DEATHS N      /* how many nodes may die */
#endif

#define NOWHERE K
/* Of several services each needs members of the last generation, so that one of them is out of it: no lease counts,
   and none ends in the model. */
#define LEASES (K == 1)
#define IN(set, i) (((set) >> (i)) & 1)
#define ADD(set, i) set = (set) | (1 << (i))
#define DROP(set, i) set = (set) & ~(1 << (i))
#define SIZE(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))

/* Generations. */
byte top;               /* the newest one */
byte members[G + 1];    /* a set of nodes */
byte before[G + 1];     /* the one that it follows */
byte former[G + 1];     /* the service that formed it */
byte sent[G + 1];       /* whose record of the step under way is sent */
byte whole[G + 1];      /* who has not committed the step that is whole */
byte committed;         /* a set of generations: a member has committed a step */
byte late;              /* a set of generations: a step became whole after a later one had committed */

/* Nodes. */
byte alive, runs, leased;  /* sets; leased: a valid lease for the generation that runs */
byte known[N];             /* the newest generation that it knows, and runs or ran */
byte at[N];                /* the service of its session; NOWHERE */

/* Services: what each of them believes. */
byte last[K];           /* the newest generation that it knows */
byte registered[K];     /* nodes with a session */
byte offered[K];        /* those of them that run nothing */
byte gone[K];           /* members that are proven dead */
byte waited[K];         /* members that were silent for longer than their lease */
byte assigned[K];       /* members of the last generation that will hear of it in the session that they have */
byte told[K];           /* nodes that have said that they know the last generation */

byte i, k;              /* of one action alone, 0 between actions */
hidden byte j, n, set;
hidden byte one_generation_at_a_time;
#define HOLDS(name, what) name = (what); assert(name)
#define FOR(v, from, to) v = from; do :: v > to -> break :: else ->
#define ROF(v) v++ od

#define DEPTH(g) ((g) == 0 -> 0 : (before[g] == 0 -> 1 : (before[before[g]] == 0 -> 2 : (before[before[before[g]]] == 0 -> 3 : 4))))
#define NEWER(a, b) (DEPTH(a) > DEPTH(b) || (DEPTH(a) == DEPTH(b) && (a) > (b)))

/* Predecessors, AreMost: of a generation's members enough are `here` for no other service to follow it. */
#define ARE_MOST(k, g, present) ((members[g] & ~((present) | gone[k])) == 0 || \
                                 2 * SIZE(members[g] & (present) & ~gone[k]) > SIZE(members[g]))

/* TakeoverQuorum::Allows: authority. */
#if K == 1 || defined(RULE_ANY_AUTHORITY)
#define ALLOWS(k, present) true
#else
#define ALLOWS(k, present) (last[k] > 0 && ARE_MOST(k, last[k], present))
#endif
/* Departures::Over: one member is certainly out of it. */
#ifdef OLD_RULE_LOST_IS_OUT
#define OVER(k) true
#else
#define OVER(k) ((members[last[k]] & (offered[k] | gone[k] | waited[k])) != 0)
#endif

/* Predecessors::FindUnsure, of the generations before the last one. */
#if K == 1 || defined(RULE_NO_PREDECESSORS) || defined(RULE_ANY_AUTHORITY)
#define PREDECESSORS_ALLOW(k, present) true
#else
#define SURE(k, p, present) ((p) == 0 || ARE_MOST(k, p, present))
#define PREDECESSORS_ALLOW(k, present) (SURE(k, before[last[k]], present) && SURE(k, before[before[last[k]]], present))
#endif

inline learn(k, g) {
  last[k] = g; gone[k] = 0; waited[k] = 0; told[k] = 0; assigned[k] = 0
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
     /* A later one has committed: then this one ends the step under way at most. */
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

/* Several services: a step as one action, for their generations end with a member that is out. */
inline step() {
  j = known[i];
  HOLDS(one_generation_at_a_time, (committed >> (j + 1)) == 0);
  ADD(committed, j)
}

/* It stops in its generation: the service says so, or its group is broken. */
inline stop() {
  DROP(runs, i);
  DROP(leased, i)
}

inline connect() {
  if
  :: at[i] < NOWHERE && at[i] != k -> DROP(assigned[at[i]], i)  /* it offers again when it comes back */
  :: else
  fi;
  at[i] = k;
  ADD(registered[k], i);
  DROP(waited[k], i);
  if :: NEWER(known[i], last[k]) -> learn(k, known[i]) :: else fi;
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
#define DECISIVE(k) (members[last[k]] | members[before[last[k]]] | members[before[before[last[k]]]])
#else
#define DECISIVE(k) 0
#endif

/* Forgets what no longer matters: a generation without one of its members completes no step. */
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
  :: atomic { IN(alive, x) && REACHES(x, y) && (at[x] != y || !IN(registered[y], x)) -> \
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
  :: atomic { x < N && IN(registered[y], x) -> DO(DROP(registered[y], x); DROP(offered[y], x), "service %d loses node %d\n", y, x) } \
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
