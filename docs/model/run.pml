/*
 * The life of one run: members with memory, disks, generations, saves (README.md).
 * One process picks any enabled action; the verifier tries all orders.
 *
 * A state of the run is its history: which generation made step 0, step 1, ... as octal digits, the lowest
 * digit for step 0. A digit is an instance of a generation (1, 2, ...); num[] is the number that members see.
 * Steps are not redone in another way: a member commits once all members have sent the record of the step, so
 * one may be a step ahead. Only the newest generation commits. Whoever is not in it is frozen, cut off or dead.
 *
 * Worlds: -DN=2 members, -DS=3 steps, -DG=3 generations, -DTOP=6 numbers, -DSHARED (one disk), -DLEDGER,
 * -DDAMAGES=1. Without other macros the rules are R1 to R5 of issue 45 as they were decided first. Rules:
 *   OLD_RULE_LIVE_CLAIMS    checkpoints count only where no member holds a state
 *   OLD_RULE_DELETE         a save deletes what is further and of a lower generation, and all older ones
 *   RULE_GAP_ALWAYS         each new generation's number is one that no other branch has (R4: cold starts only)
 *   RULE_STEPS_FIRST        positions are compared by steps, then by generation (R1: the generation first)
 *   RULE_ALWAYS_OF          a generation names the one that it continues unless its number is the next one
 *                           (R5: only where the writer's own file shows that it must)
 *   RULE_WRITER_FIRST       the writer has written what it remembers before any member receives its state
 *   RULE_COPIES_HAVE_LINES  a member that saves in a folder of its own also writes the lines of those steps there
 *   CHECK_STEPS             property: no live member's state is given up for one with two steps less
 */
#ifndef N
#define N 2           /* members */
#endif
#ifndef S
#define S 4           /* steps of the run, at most 4 */
#endif
#ifndef G
#define G 3           /* generations, at most 7 */
#endif
#ifndef TOP
#define TOP 6         /* the highest generation number */
#endif
#ifndef DAMAGES
#define DAMAGES 0     /* checkpoints that the disk may damage */
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
#define GONE 14       /* ... and died before: a fresh process is in none */
#define IN(set, i) (((set) >> (i)) & 1)
#define STEPS(h) ((h) >= 512 -> 4 : ((h) >= 64 -> 3 : ((h) >= 8 -> 2 : ((h) > 0 -> 1 : 0))))
#define MADE(h, s) (((h) >> (3 * (s))) & 7)
#define LAST(h) ((h) <= 0 -> 0 : MADE(h, STEPS(h) - 1))
#define NUMBER(h) num[LAST(h)]
#define ANCESTOR(a, b) (((b) & ((1 << (3 * STEPS(a))) - 1)) == (a))
#define BY_LINEAGE(a, b) (STEPS(b) >= STEPS(a) && num[MADE(b, STEPS(a) - 1)] == NUMBER(a))
#ifdef RULE_STEPS_FIRST
#define POSITION(h) (STEPS(h) * 8 + NUMBER(h))
#else
#define POSITION(h) (NUMBER(h) * 8 + STEPS(h))
#endif
#define ABOVE(a, b) ((a) != NONE && ((b) == NONE || POSITION(a) > POSITION(b)))
#define CK(d, s) ck[(d) * S + (s) - 1]
#define INTACT(d, s) (CK(d, s) > 0 && !IN(damaged, (d) * S + (s) - 1))

byte num[G + 1];      /* number of each instance; num[0] = 0: before the first step */
byte top;             /* the newest instance: only its members commit */
byte service;         /* the highest number that the service knows */
byte members;         /* of the newest generation, a set */
byte writer;
short target;         /* the state in which it begins */
short mem[N];         /* what each member holds; NONE: a fresh process */
byte known[N];        /* the highest number that its memory knows */
byte reached[N];      /* steps that it finished in the newest generation, also once it is dead; OUT */
short saving[N];      /* handed to the thread that writes; NONE */
short ck[D * S];      /* step_1 ... step_S of each disk, 0: not there */
short damaged;        /* a set of those */
byte folder[D];       /* the highest number in each folder: ledger, step_, branch_ */
byte damages;
#ifdef LEDGER
short lines[D];       /* bit (instance - 1) * S + step */
byte file[D];         /* the highest number in each ledger */
byte rewound[G + 1];  /* 1 + step of the generation's rewind line; 0: it has none */
byte follows[G + 1];       /* the instance that it names */
byte remembers[N];    /* the first step that the member can write lines of */
#endif

/* Of one action alone. What is used behind a choice is part of the state, and 0 between actions. */
byte who, next;       /* who meets; the number of the next generation */
short truth, live;    /* the state that counts; the highest that a member holds */
hidden byte i, j, n, s, w, bad;
hidden short disk, made;

/* A property by name: the verifier's message has it. */
hidden byte nothing_saved_is_lost, same_position_same_history, no_run_goes_back, no_live_step_is_redone, ledger_proves_the_state;
#define HOLDS(name, what) name = (what); assert(name)

#define FOR(v, from, to) v = from; do :: v > to -> break :: else ->
#define ROF(v) v++ od

/* ---- a checkpoint leaves its name */

/* It is deleted: what is intact must be an ancestor of `by`, which is on the same disk. */
inline delete(d, at, by) {
  HOLDS(nothing_saved_is_lost, !INTACT(d, at) || ANCESTOR(CK(d, at), by))
  damaged = damaged & ~(1 << ((d) * S + (at) - 1));
  CK(d, at) = 0
}
/* It becomes branch_G_step_N, which nobody deletes. */
inline move_aside(d, at) {
  damaged = damaged & ~(1 << ((d) * S + (at) - 1));
  CK(d, at) = 0
}

/* The saver's thread: WriteCheckpoint, then RemoveOldSteps with --keep_checkpoints 1. */
inline finish_save(d, h) {
  s = STEPS(h);
  if
  :: INTACT(d, s) && NUMBER(CK(d, s)) == NUMBER(h) ->
     HOLDS(same_position_same_history, CK(d, s) == h)
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
  if
  :: CK(d, s) != h
  :: else ->
     FOR(n, 1, s - 1)
       if
       :: CK(d, n) == 0
       :: else ->
#ifndef OLD_RULE_DELETE
          if
          :: BY_LINEAGE(CK(d, n), h) -> delete(d, n, h)
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
  fi
}

/* ---- members meet */

/* DecideSource: the state that counts. `who`: who meets. */
inline decide() {
  live = NONE; disk = NONE;
  FOR(i, 0, N - 1)
    if :: IN(who, i) && ABOVE(mem[i], live) -> live = mem[i] :: else fi;
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
         if :: INTACT(DISK(i), s) && ABOVE(CK(DISK(i), s), disk) -> disk = CK(DISK(i), s) :: else fi;
       ROF(s)
    :: else
    fi;
  ROF(i);
#ifdef OLD_RULE_LIVE_CLAIMS
  fi;
#endif
  if :: ABOVE(disk, live) -> truth = disk :: else fi
}

/* At or above every position that a member holds or can read; no live state is given up for fewer steps. */
inline check_decision() {
  FOR(i, 0, N - 1)
    if
    :: IN(who, i) ->
       HOLDS(no_run_goes_back, !ABOVE(mem[i], truth));
#ifdef CHECK_STEPS
       HOLDS(no_live_step_is_redone, STEPS(mem[i]) <= STEPS(truth) + 1);
#endif
       FOR(s, 1, S)
         HOLDS(no_run_goes_back, !INTACT(DISK(i), s) || !ABOVE(CK(DISK(i), s), truth));
       ROF(s)
    :: else
    fi;
  ROF(i)
}

inline highest_known() {
  next = service;
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

inline is_used(number) {
  bad = false;
  FOR(i, 1, top)
    if :: num[i] == number -> bad = true :: else fi;
  ROF(i)
}

/* R4. A random gap makes a number that no other branch has: any number that is free. */
inline choose_number() {
  next++;
#ifdef RULE_GAP_ALWAYS
#define GAP true
#else
#define GAP (truth != live)
#endif
  if
  :: GAP ->
     do
     :: next > TOP -> break
     :: next <= TOP -> is_used(next); if :: bad -> next++ :: else -> break fi
     :: next < TOP -> next++
     od
  :: else
  fi
}

/* ---- the ledger, over the folders of all nodes */

#ifdef LEDGER
#define LINE(g, at) (1 << (((g) - 1) * S + (at)))
hidden short all, begun;
hidden byte g, until, p, count[S];

inline add_line(d, gen, at) {
  lines[d] = lines[d] | LINE(gen, at);
  if :: file[d] < num[gen] -> file[d] = num[gen] :: else fi;
  if :: folder[d] < num[gen] -> folder[d] = num[gen] :: else fi
}

inline write_remembered(i, d, h) {
  FOR(n, remembers[i], STEPS(h) - 1)
    add_line(d, MADE(h, n), n);
  ROF(n)
}

/* Of the generations in the ledger the one with the highest number below that of `below`; 0: none. */
inline highest_below(below) {
  p = 0;
  FOR(j, 1, top)
    if
    :: (rewound[j] > 0 || (all >> ((j - 1) * S)) & ((1 << S) - 1)) && num[j] < num[below] &&
       num[j] > num[p] -> p = j
    :: else
    fi;
  ROF(j)
}

/* R5: the lines that count are those of the writer's state. */
inline verify_ledger(h) {
  all = 0;
  FOR(i, 0, D - 1) all = all | lines[i]; ROF(i);
  FOR(n, 0, S - 1) count[n] = 0; ROF(n);
  until = S; p = top;
  do
  :: p == 0 -> break
  :: else ->
     g = p;
     if
     :: rewound[g] > 0 -> begun = rewound[g] - 1
     :: else -> begun = 0; do :: all & LINE(g, begun) -> break :: else -> begun++ od
     fi;
     FOR(n, begun, until - 1)
       if :: all & LINE(g, n) -> count[n] = g :: else fi;
     ROF(n);
     if :: begun < until -> until = begun :: else fi;
     if
     :: rewound[g] > 0 -> p = follows[g]
     :: else -> highest_below(g)
     fi
  od;
  FOR(n, 0, S - 1)
    HOLDS(ledger_proves_the_state, count[n] == (n < STEPS(h) -> MADE(h, n) : 0));
  ROF(n)
}

/* RunFolder::Open of the writer, in a generation that begins with `target`. */
inline open_ledger(i, d) {
  bad = file[d] > NUMBER(target);  /* the file knows a generation above the state's, or is further */
  FOR(g, 1, top - 1)
    FOR(n, STEPS(target), S - 1)
      if :: lines[d] & LINE(g, n) -> bad = true :: else fi;
    ROF(n);
  ROF(g);
#ifdef RULE_ALWAYS_OF
  bad = bad || NUMBER(target) + 1 != num[top];  /* or another generation may stand between them elsewhere */
#endif
  if
  :: bad -> rewound[top] = STEPS(target) + 1; follows[top] = LAST(target);
     if :: file[d] < num[top] -> file[d] = num[top] :: else fi;
     if :: folder[d] < num[top] -> folder[d] = num[top] :: else fi
  :: else
  fi;
  write_remembered(i, d, target)
}
#endif

/* ---- actions */

inline meet() {
  who = 1; do :: who < (1 << N) - 1 -> who++ :: break od;
  decide(); highest_known();
  choose_number();
  if
  :: truth == NONE || next > TOP  /* nothing to continue from, or the world ends */
  :: else ->
     check_decision();
     top++;
     num[top] = next;
     service = next;
     members = who;
     target = truth;
     writer = OUT;
     FOR(i, 0, N - 1)
       reached[i] = OUT;
       if
       :: IN(who, i) ->
          known[i] = next;
          if
          :: truth == live -> skip
          :: else ->
             /* It reads the newest checkpoint above the live states. */
             w = 0;
             FOR(s, 1, S)
               if
               :: INTACT(DISK(i), s) && ABOVE(CK(DISK(i), s), live) && (w == 0 || ABOVE(CK(DISK(i), s), CK(DISK(i), w))) -> w = s
               :: else
               fi;
             ROF(s);
             if
             :: w > 0 ->
                mem[i] = CK(DISK(i), w);
#ifdef LEDGER
                remembers[i] = w
#endif
             :: else
             fi
          fi;
          if :: mem[i] == truth && writer == OUT -> writer = i :: else fi
       :: else
       fi;
     ROF(i);
     printf("members %x meet: generation instance %d, number %d, from %o, writer %d\n", members, top, num[top], target, writer)
  fi;
  who = 0; next = 0; truth = 0; live = 0
}

inline enter(i) {
  if
  :: mem[i] == target
  :: else ->
     mem[i] = target;
#ifdef LEDGER
     remembers[i] = STEPS(target)
#endif
  fi;
  reached[i] = STEPS(target);
#ifndef OLD_RULE_DELETE
  FOR(s, STEPS(target) + 1, S)
    if :: CK(DISK(i), s) > 0 -> move_aside(DISK(i), s) :: else fi;
  ROF(s);
#endif
#ifdef LEDGER
  if :: i == writer -> open_ledger(i, DISK(i)) :: else fi
#endif
}

inline commit(i) {
  mem[i] = mem[i] | (top << (3 * STEPS(mem[i])));
  reached[i]++;
  made = mem[i];
  if
  :: i == writer ->
#ifdef LEDGER
     add_line(DISK(i), top, STEPS(made) - 1);
     verify_ledger(made)
#else
     if :: folder[DISK(i)] < num[top] -> folder[DISK(i)] = num[top] :: else fi
#endif
  :: else
  fi;
  /* The same position is the same history. */
  FOR(j, 0, N - 1)
    HOLDS(same_position_same_history, mem[j] == NONE || POSITION(mem[j]) != POSITION(made) || mem[j] == made);
  ROF(j);
  FOR(j, 0, D * S - 1)
    HOLDS(same_position_same_history, ck[j] == 0 || POSITION(ck[j]) != POSITION(made) || ck[j] == made);
  ROF(j)
}

/* All members have sent the record of the step: each does so when it has finished the one before. */
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
  :: atomic { IN(members, i) && reached[i] == OUT && HOLDER && MAY_ENTER(i) -> d_step { skip; enter(i); printf("member %d enters: %o\n", i, mem[i]) } } \
  :: atomic { RUNS(i) && SAVES(i) && mem[i] > 0 && saving[i] == NONE -> d_step { saving[i] = mem[i]; RECORD(i); printf("member %d takes a checkpoint: %o\n", i, saving[i]) } } \
  :: atomic { saving[i] != NONE -> d_step { skip; printf("member %d has written %o\n", i, saving[i]); saved(i); skip } } \
  :: atomic { mem[i] != NONE -> d_step { mem[i] = NONE; saving[i] = NONE; known[i] = 0; FORGET(i); if :: reached[i] == OUT -> reached[i] = GONE :: else fi; printf("member %d dies\n", i) } }

#if defined(LEDGER) && defined(RULE_COPIES_HAVE_LINES)
#define RECORD(i) write_remembered(i, DISK(i), mem[i])
#else
#define RECORD(i) skip
#endif
#ifdef RULE_WRITER_FIRST
#define MAY_ENTER(i) (i == writer || reached[writer] < GONE)
#else
#define MAY_ENTER(i) true
#endif
#ifdef LEDGER
#define FORGET(i) remembers[i] = 0
#else
#define FORGET(i) skip
#endif

inline saved(i) {
  made = saving[i];
  saving[i] = NONE;
  finish_save(DISK(i), made)
}

init {
  d_step {
    top = 1; num[1] = 1; service = 1; members = (1 << N) - 1;
    FOR(i, 0, N - 1) saving[i] = NONE; known[i] = 1; ROF(i);
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
  :: atomic { service > 0 -> service = 0; printf("the service is lost\n") }  /* a service that knows nothing takes the place */
#if DAMAGES > 0
  :: atomic { damages < DAMAGES ->
     select(who : 0 .. D * S - 1);
     if :: ck[who] > 0 && !IN(damaged, who) -> damaged = damaged | (1 << who); damages++ :: else fi;
     who = 0 }
#endif
  od
}
