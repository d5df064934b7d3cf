/*
 * The life of one run: members with memory, disks, generations, saves (README.md).
 * One process picks any enabled action; the verifier tries all orders.
 *
 * A state of the run is its history: which generation made step 0, step 1, ... as octal digits, the lowest
 * digit for step 0. A digit is an instance of a generation (1, 2, ...); num[] is the number that members see.
 * A member commits once all members have sent the record of the step, so one may be a step ahead. Only the
 * newest generation commits (generations.pml). A member that is not in it is frozen, cut off or dead.
 *
 * Worlds: -DN=2 members, -DS=3 steps, -DG=3 generations, -DSHARED (one disk), -DLEDGER, -DDAMAGES=1,
 * -DFIRST=1 (the set of members of the first generation). Without other macros the rule is the final one.
 * Rules that were given up, each of which breaks a property:
 *   OLD_RULE_LIVE_CLAIMS    checkpoints count only if no member holds a state
 *   OLD_RULE_DELETE         a save deletes the further steps of lower generations, and all older ones
 *   RULE_GENERATION_FIRST   positions are compared by generation, then by steps
 *   RULE_NO_GAP             a new generation's number is the highest known one plus 1
 *   RULE_GAP_COLD_STARTS    a gap is added only if the state was read from a checkpoint
 *   RULE_NO_RECORD          a state that is handed over or saved lacks the record of its last step
 *   RULE_NO_OF              "rewind" is written only if the file has a later generation or a further step
 *   RULE_WRITER_MARKS       the writer's folder alone tells that several nodes are in the run, once it has entered
 *   RULE_FILE_BELOW         a file that ends with a lower generation than the state's is taken for an ancestor's
 *   RULE_ANY_FOLDER         the verifier's walk begins at the highest generation of all folders
 * SERVICE_FORGETS_WITHIN_LEASE drops an assumption about the rendezvous (README.md).
 */
#ifndef N
#define N 2           /* members */
#endif
#ifndef S
#define S 3           /* steps of the run, at most 4 */
#endif
#ifndef G
#define G 3           /* generations, at most 5 */
#endif
#ifndef FIRST
#define FIRST ((1 << N) - 1)
#endif
#ifndef DAMAGES
#define DAMAGES 0     /* how often a checkpoint becomes unreadable */
#endif
#ifdef SHARED
#define D 1
#define DISK(i) 0
#else
#define D N
#define DISK(i) (i)
#endif

#define NONE -1
#define OUT 15        /* reached[]: has not entered the generation ... */
#define GONE 14       /* ... and died before: a new process is in no generation */
#define IN(set, i) (((set) >> (i)) & 1)
#define STEPS(h) ((h) >= 512 -> 4 : ((h) >= 64 -> 3 : ((h) >= 8 -> 2 : ((h) > 0 -> 1 : 0))))
#define MADE(h, s) (((h) >> (3 * (s))) & 7)
#define LAST(h) ((h) <= 0 -> 0 : MADE(h, STEPS(h) - 1))
#define NUMBER(h) num[LAST(h)]
#define ANCESTOR(a, b) (((b) & ((1 << (3 * STEPS(a))) - 1)) == (a))
#define DESCENDS(b, a) (STEPS(b) >= STEPS(a) && num[MADE(b, STEPS(a) - 1)] == NUMBER(a))
#ifdef RULE_GENERATION_FIRST
#define POSITION(h) (NUMBER(h) * 8 + STEPS(h))
#else
#define POSITION(h) (STEPS(h) * 64 + NUMBER(h))
#endif
#define ABOVE(a, b) ((a) != NONE && ((b) == NONE || POSITION(a) > POSITION(b)))
#define CK(d, s) ck[(d) * S + (s) - 1]
#define INTACT(d, s) (CK(d, s) > 0 && !IN(damaged, (d) * S + (s) - 1))

/* A random gap leads to a block of numbers that no other branch uses: BLOCK > G. */
#define BLOCK 8
#define LAST_BLOCK (G - 1)

byte num[G + 1];      /* number of each instance; num[0] = 0: before the first step */
byte top;             /* the newest instance: only its members commit */
byte members;         /* of the newest generation, a set */
byte writer;
short target;         /* the state in which it begins */
short mem[N];         /* the state of each member; NONE: a new process */
byte known[N];        /* the highest number in its memory */
byte reached[N];      /* steps that it finished in the newest generation, even if it died since; OUT */
short saving[N];      /* handed to the writer thread; NONE */
short ck[D * S];      /* step_1 ... step_S of each disk, 0: missing */
byte folder[D];       /* the highest number in each folder: ledger, step_, branch_ */
byte nodes[D];        /* recorded in the folder: 0 no ledger, 1 a ledger, 2 several nodes have worked on the run */
#if DAMAGES > 0
short damaged;        /* a set of checkpoints that are currently unreadable */
byte damages;
#else
#define damaged 0
#endif
#ifdef LEDGER
int lines[D];         /* bit (instance - 1) * S + step */
byte file[D];         /* the instance with the highest number in each ledger */
byte ends[D];         /* the step after that instance's last line */
byte rewound[G + 1];  /* 1 + step of the generation's rewind line; 0: it has none */
byte follows[G + 1];  /* the instance that this line names */
byte remembers[N];    /* the first step whose record the member has */
short base[G + 1];    /* the state in which it began: the lines must prove it */
#endif

/* Used within one action. Values used after a choice are part of the state, and 0 between actions. */
byte who, next, gap;  /* the meeting members; the next generation's number; whether a gap is added: 2 is open */
bool forgets;         /* whether the service knows nothing */
byte source;          /* the member whose state counts; N: a checkpoint */
short truth, live;    /* the state that counts; the highest state of a member */
hidden byte i, j, n, s, w, bad;
hidden short disk, made;

/* A property by name: the verifier's message has it. */
hidden byte nothing_saved_is_lost, one_number_one_generation, no_run_goes_back, no_live_step_is_redone,
            ledger_proves_the_run;
#define HOLDS(name, what) name = (what); assert(name)

#define FOR(v, from, to) v = from; do :: v > to -> break :: else ->
#define ROF(v) v++ od

/* ---- a checkpoint loses its name */

#if DAMAGES > 0
#define FORGET_DAMAGE(d, at) damaged = damaged & ~(1 << ((d) * S + (at) - 1))
#else
#define FORGET_DAMAGE(d, at) skip
#endif

/* Deletes a checkpoint, which must be an ancestor of the saved state `by`. */
inline delete(d, at, by) {
  HOLDS(nothing_saved_is_lost, ANCESTOR(CK(d, at), by))
  FORGET_DAMAGE(d, at);
  CK(d, at) = 0
}
/* Renames it to branch_G_step_N, which the program never deletes. */
inline move_aside(d, at) {
  FORGET_DAMAGE(d, at);
  CK(d, at) = 0
}

/* The writer thread: WriteCheckpoint, then RemoveOldSteps with --keep_checkpoints 1. */
inline finish_save(d, h) {
  s = STEPS(h);
  if
  :: INTACT(d, s) && NUMBER(CK(d, s)) == NUMBER(h) ->
     HOLDS(one_number_one_generation, CK(d, s) == h)
  :: INTACT(d, s) && NUMBER(CK(d, s)) > NUMBER(h)  /* stays: a later generation made it */
  :: else ->
     if
     :: CK(d, s) == 0
     :: else ->
#ifdef OLD_RULE_DELETE
        delete(d, s, h)
#else
        move_aside(d, s)
#endif
     fi;
     CK(d, s) = h
  fi;
  FOR(n, 1, s - 1)
    if
    :: CK(d, n) == 0
    :: else ->
#ifndef OLD_RULE_DELETE
       if
       :: DESCENDS(h, CK(d, n)) -> delete(d, n, h)
       :: else -> move_aside(d, n)
       fi
#else
       delete(d, n, h)
#endif
    fi;
  ROF(n);
#ifdef OLD_RULE_DELETE
  FOR(n, s + 1, S)
    if
    :: CK(d, n) > 0 && NUMBER(CK(d, n)) < NUMBER(h) -> delete(d, n, h)
    :: else
    fi;
  ROF(n);
#endif
  if :: folder[d] < NUMBER(h) -> folder[d] = NUMBER(h) :: else fi
}

/* ---- members meet */

/* DecideSource: the state that counts. `who`: the meeting members. */
inline decide() {
  live = NONE; disk = NONE; source = N;
  FOR(i, 0, N - 1)
    if :: IN(who, i) && ABOVE(mem[i], live) -> live = mem[i]; source = i :: else fi;
  ROF(i);
  truth = live;
#ifdef OLD_RULE_LIVE_CLAIMS
  if
  :: live != NONE
  :: else ->
#endif
  FOR(i, 0, N - 1)
    if
    :: IN(who, i) ->
       FOR(s, 1, S)
         if :: INTACT(DISK(i), s) && ABOVE(CK(DISK(i), s), disk) -> disk = CK(DISK(i), s); w = i :: else fi;
       ROF(s)
    :: else
    fi;
  ROF(i);
#ifdef OLD_RULE_LIVE_CLAIMS
  fi;
#endif
  if
  :: ABOVE(disk, live) -> truth = disk; source = N; gap = nodes[DISK(w)] != 1
  :: truth != NONE && !ABOVE(disk, live) -> gap = (nodes[DISK(source)] != 1 -> 2 : 0)
  :: else -> gap = 0
  fi
}

/* The state is at or above every position that a member holds or can read. */
inline check_decision() {
  FOR(i, 0, N - 1)
    if
    :: IN(who, i) ->
       HOLDS(no_run_goes_back, STEPS(mem[i]) <= STEPS(truth) && !ABOVE(mem[i], truth));
       FOR(s, 1, S)
         HOLDS(no_run_goes_back, !INTACT(DISK(i), s) || (s <= STEPS(truth) && !ABOVE(CK(DISK(i), s), truth)));
       ROF(s)
    :: else
    fi;
  ROF(i)
}

/* A service that forgets knows only the members' numbers. */
inline highest_known() {
  next = (forgets -> 0 : num[top]);
  FOR(i, 0, N - 1)
    if
    :: IN(who, i) ->
       if :: known[i] > next -> next = known[i] :: else fi;
       if :: folder[DISK(i)] > next -> next = folder[DISK(i)] :: else fi;
       if :: mem[i] != NONE && NUMBER(mem[i]) > next -> next = NUMBER(mem[i]) :: else fi
    :: else
    fi;
  ROF(i)
}

inline block_is_used(block) {
  bad = false;
  FOR(i, 1, top)
    if :: num[i] / BLOCK == block -> bad = true :: else fi;
  ROF(i)
}

/* The gap of the source counts. `gap` is 2 if the folder says that others may have continued: then it depends on
   the lease. A member of the newest generation cannot be behind; its lease may be over. For a member of another
   generation, a service that has forgotten implies that the lease is over. */
inline choose_number() {
#ifdef RULE_NO_GAP
  gap = 0;
#endif
  if
#ifdef RULE_GAP_COLD_STARTS
  :: gap == 2 -> gap = 0
#else
#ifndef SERVICE_FORGETS_WITHIN_LEASE
  :: gap == 2 && forgets && !IN(members, source) -> gap = 1
  :: gap == 2 && !(forgets && !IN(members, source)) -> gap = 0
#else
  :: gap == 2 -> gap = 0
#endif
  :: gap == 2 -> gap = 1
#endif
  :: gap < 2
  fi;
  if
  :: gap == 0 -> next++
  :: else ->
     next = next / BLOCK + 1;
     do
     :: next > LAST_BLOCK -> break
     :: next <= LAST_BLOCK -> block_is_used(next); if :: bad -> next++ :: else -> break fi
     :: next < LAST_BLOCK -> next++
     od;
     next = next * BLOCK
  fi
}

/* ---- the ledger, over the folders of all nodes */

#ifndef LEDGER
#define REMEMBER(i, steps) skip
#define FORGET(i) skip
#else
#define FORGET(i) remembers[i] = 0
#define LINE(g, at) (1 << (((g) - 1) * S + (at)))
#define HAS_LINES(g) (rewound[g] > 0 || ((all >> (((g) - 1) * S)) & ((1 << S) - 1)))
hidden int all;
hidden short begun;
hidden byte g, until, p, d, reach, best, best_reach, count[S];

#define KEPT(d, w) (ends[d] < w -> ends[d] : w)
#define LATER(d) (num[file[d]] > NUMBER(target))
#ifdef RULE_FILE_BELOW
#define OTHER_BRANCH(d, w) LATER(d)
#else
#define OTHER_BRANCH(d, w) (LATER(d) || (KEPT(d, w) > 0 && num[MADE(target, KEPT(d, w) - 1)] != num[file[d]]))
#endif
#ifdef RULE_NO_OF
#define OTHERS_BETWEEN false
#else
#define OTHERS_BETWEEN (NUMBER(target) + 1 != num[top])
#endif
#ifdef RULE_NO_RECORD
#define REMEMBER(i, steps) remembers[i] = steps
#else
#define REMEMBER(i, steps) remembers[i] = ((steps) > 0 -> (steps) - 1 : 0)
#endif

inline add_line(d, gen, at) {
  lines[d] = lines[d] | LINE(gen, at);
  if :: num[gen] >= num[file[d]] -> file[d] = gen; ends[d] = at + 1 :: else fi;
  if :: folder[d] < num[gen] -> folder[d] = num[gen] :: else fi
}

/* Finds the generation in the ledger with the highest number below that of `below`; 0: none. */
inline highest_below(below) {
  p = 0;
  FOR(j, 1, top)
    if :: HAS_LINES(j) && num[j] < num[below] && num[j] > num[p] -> p = j :: else fi;
  ROF(j)
}

/* Finds which generation's line counts for each step if `from` is the last generation, and how far that reaches. */
inline walk(from) {
  FOR(n, 0, S - 1) count[n] = 0; ROF(n);
  until = S; p = from; reach = 0;
  do
  :: p == 0 -> break
  :: else ->
     g = p;
     if
     :: rewound[g] > 0 -> begun = rewound[g] - 1
     :: else -> begun = 0; do :: begun == S || (all & LINE(g, begun)) -> break :: else -> begun++ od
     fi;
     FOR(n, begun, until - 1)
       if :: all & LINE(g, n) -> count[n] = g; if :: n >= reach -> reach = n + 1 :: else fi :: else fi;
     ROF(n);
     if :: begun < until -> until = begun :: else fi;
     if
     :: rewound[g] > 0 -> p = follows[g]
     :: else -> highest_below(g)
     fi
  od
}

/* The lines that count belong to one branch, up to the writer's position. */
inline verify_ledger(h) {
  all = 0; best = 0; best_reach = 0;
  FOR(i, 0, D - 1) all = all | lines[i]; ROF(i);
  FOR(d, 0, D - 1)
    if
    :: file[d] > 0 ->
       walk(file[d]);
#ifdef RULE_ANY_FOLDER
       reach = 1;
#endif
       if
       :: reach > best_reach || (reach == best_reach && num[file[d]] > num[best]) -> best = file[d]; best_reach = reach
       :: else
       fi
    :: else
    fi;
  ROF(d);
  walk(best);
  HOLDS(ledger_proves_the_run, reach >= STEPS(h));
  FOR(n, 0, reach - 1)
    HOLDS(ledger_proves_the_run, count[n] > 0 && count[n] == (n < STEPS(base[best]) -> MADE(base[best], n) : best));
  ROF(n)
}

/* Ledger::Begin and the remembered steps, for the writer of a generation that begins with `target`. */
inline open_ledger(i, d) {
  w = STEPS(target);
  bad = OTHER_BRANCH(d, w);  /* the last line of the file is not an ancestor's */
  g = (bad -> remembers[i] : KEPT(d, w));
  if
  :: ends[d] > w || (w > 0 && (bad || OTHERS_BETWEEN)) ->
     rewound[top] = w + 1; follows[top] = LAST(target);
     file[d] = top; ends[d] = w;
     if :: folder[d] < num[top] -> folder[d] = num[top] :: else fi
  :: else
  fi;
  if :: g < remembers[i] -> g = remembers[i] :: else fi;
  FOR(n, g, w - 1)
    add_line(d, MADE(target, n), n);
  ROF(n);
  verify_ledger(target)
}
#endif

/* ---- actions */

inline meet() {
  who = 1; do :: who < (1 << N) - 1 -> who++ :: break od;
  if :: forgets = false :: forgets = true fi;
  d_step { skip; decide(); highest_known(); skip }
  if
  :: truth == NONE
  :: else -> choose_number()
  fi;
  d_step {
  if
  :: truth == NONE || next / BLOCK > LAST_BLOCK  /* nothing to continue from, or the world ends */
  :: else ->
     check_decision();
     top++;
     num[top] = next;
     members = who;
     target = truth;
     writer = OUT;
#ifdef LEDGER
     base[top] = target;
#endif
     FOR(i, 0, N - 1)
       reached[i] = OUT;
       if
       :: IN(who, i) ->
          known[i] = next;
          if
          :: truth == live -> skip
          :: else ->
             /* LoadNewest: it reads the newest checkpoint above the live states. */
             w = 0;
             FOR(s, 1, S)
               if
               :: INTACT(DISK(i), s) && ABOVE(CK(DISK(i), s), live) && (w == 0 || ABOVE(CK(DISK(i), s), CK(DISK(i), w))) -> w = s
               :: else
               fi;
             ROF(s);
             if
             :: w > 0 -> mem[i] = CK(DISK(i), w); REMEMBER(i, w)
             :: else
             fi
          fi;
          if :: mem[i] == truth && writer == OUT -> writer = i :: else fi
       :: else
       fi;
     ROF(i);
#ifndef RULE_WRITER_MARKS
     if
     :: who & (who - 1) ->
        FOR(i, 0, N - 1)
          if :: IN(who, i) -> nodes[DISK(i)] = 2 :: else fi;
        ROF(i)
     :: else
     fi;
#endif
     printf("members %x meet: generation instance %d, number %d, from %o, writer %d\n", members, top, num[top], target, writer)
  fi;
  who = 0; next = 0; truth = 0; live = 0; gap = 0; forgets = 0; source = 0
  }
}

inline enter(i) {
  if
  :: mem[i] == target
  :: else -> mem[i] = target; REMEMBER(i, STEPS(target))
  fi;
  reached[i] = STEPS(target);
#ifndef OLD_RULE_DELETE
  /* SetBranchesAside: checkpoints that were unreadable when the generation began. */
  FOR(s, STEPS(target) + 1, S)
    if :: CK(DISK(i), s) > 0 && !INTACT(DISK(i), s) -> move_aside(DISK(i), s) :: else fi;
  ROF(s);
#endif
  if
  :: i == writer ->
     if
     :: members & (members - 1) -> nodes[DISK(i)] = 2
     :: nodes[DISK(i)] == 0 && (members & (members - 1)) == 0 -> nodes[DISK(i)] = 1
     :: else
     fi;
#ifdef LEDGER
     open_ledger(i, DISK(i))
#endif
  :: else
  fi
}

/* No other generation that left a trace has the newest one's number. */
inline check_number() {
  FOR(j, 0, N - 1)
    FOR(n, 0, STEPS(mem[j]) - 1)
      HOLDS(one_number_one_generation, MADE(mem[j], n) == top || num[MADE(mem[j], n)] != num[top]);
    ROF(n);
  ROF(j);
  FOR(j, 0, D * S - 1)
    FOR(n, 0, STEPS(ck[j]) - 1)
      HOLDS(one_number_one_generation, MADE(ck[j], n) == top || num[MADE(ck[j], n)] != num[top]);
    ROF(n);
  ROF(j)
}

inline commit(i) {
  mem[i] = mem[i] | (top << (3 * STEPS(mem[i])));
  reached[i]++;
  made = mem[i];
  check_number();
  if
  :: i == writer ->
#ifdef LEDGER
     add_line(DISK(i), top, STEPS(made) - 1);
     verify_ledger(made)
#else
     if :: folder[DISK(i)] < num[top] -> folder[DISK(i)] = num[top] :: else fi
#endif
  :: else
  fi
}

/* All members have sent the record of the step, as each does after finishing the previous one. */
#define SENT(k, i) (!IN(members, k) || (reached[k] < GONE && reached[k] >= STEPS(mem[i])))
#if N == 3
#define ALL_SENT(i) (SENT(0, i) && SENT(1, i) && SENT(2, i))
#define HOLDER (mem[0] == target || mem[1] == target || mem[2] == target)
#else
#define ALL_SENT(i) (SENT(0, i) && SENT(1, i))
#define HOLDER (mem[0] == target || mem[1] == target)
#endif
#define RUNS(i) (IN(members, i) && reached[i] < GONE && mem[i] != NONE)
#ifdef SHARED
#define SAVES(i) (writer == i)
#else
#define SAVES(i) true
#endif

#define ACTIONS(i) \
  :: atomic { RUNS(i) && STEPS(mem[i]) < S && ALL_SENT(i) -> d_step { skip; commit(i); printf("member %d commits: %o\n", i, mem[i]) } } \
  :: atomic { IN(members, i) && reached[i] == OUT && HOLDER -> d_step { skip; enter(i); printf("member %d enters: %o\n", i, mem[i]) } } \
  :: atomic { RUNS(i) && SAVES(i) && mem[i] > 0 && saving[i] == NONE -> d_step { saving[i] = mem[i]; printf("member %d takes a checkpoint: %o\n", i, saving[i]) } } \
  :: atomic { saving[i] != NONE -> d_step { skip; printf("member %d has written %o\n", i, saving[i]); saved(i); skip } } \
  :: atomic { mem[i] != NONE -> d_step { mem[i] = NONE; saving[i] = NONE; known[i] = 0; FORGET(i); if :: reached[i] == OUT -> reached[i] = GONE :: else fi; printf("member %d dies\n", i) } }

inline saved(i) {
  made = saving[i];
  saving[i] = NONE;
  finish_save(DISK(i), made)
}

init {
  d_step {
    top = 1; num[1] = 1; members = FIRST; nodes[0] = (FIRST & (FIRST - 1) -> 2 : 1);
    FOR(i, 0, N - 1)
      saving[i] = NONE;
      if
      :: IN(FIRST, i) -> known[i] = 1;
#ifndef RULE_WRITER_MARKS
         nodes[DISK(i)] = nodes[0]
#endif
      :: else -> mem[i] = NONE; reached[i] = OUT
      fi;
    ROF(i);
    skip
  }
end:
  do
  ACTIONS(0)
  ACTIONS(1)
#if N == 3
  ACTIONS(2)
#endif
  :: atomic { top < G -> meet() }
#if DAMAGES > 0
  :: atomic { damages < DAMAGES ->
     select(who : 0 .. D * S - 1);
     if :: ck[who] > 0 && !IN(damaged, who) -> damaged = damaged | (1 << who); damages++ :: else fi;
     who = 0 }
  :: atomic { damaged > 0 -> damaged = 0 }  /* it can be read again */
#endif
  od
}
