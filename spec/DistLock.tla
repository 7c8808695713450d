------------------------------ MODULE DistLock ------------------------------
(***************************************************************************)
(* The queue protocol of distlock: one key, one Redis server, several      *)
(* processes. docs/protocol.md says what is written to the server; this    *)
(* module says what must be true of it in every order of events.           *)
(*                                                                         *)
(* Read it from the top: the server's scripts, the client, what may go     *)
(* wrong, and at the end the promises. README.md says what is left out.    *)
(*                                                                         *)
(* Time. Every time in the state is counted from now, in ticks: 2 lies two *)
(* ticks ahead, -1 one tick back. Step Tick moves all of them back by one. *)
(* So no run is too long for the model, and two states that differ only in *)
(* the date are one state. A time further back than Floor stays there:     *)
(* nothing depends any more on how long ago it was.                        *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  Procs,    \* the processes
  Readers,  \* those of them that want the lock shared; the others want it exclusive
  Limit,    \* 0, or: every process wants one of so many places
  Starts,   \* how many attempts they make, all together
  TTL,      \* the lease time
  Claim,    \* how long a grant lives that nobody has renewed
  Beat,     \* heartbeat: how long a waiter waits before it asks again
  Hold,     \* Late = 0: who has held the lock for so long releases it
  Linger,   \* 0, or: how long a lease without a section may stay with its process
  May,      \* what may happen, each once in a run (see Happens)
  Late,     \* how many messages at a time may be under way for longer than a tick, or any number of ticks;
            \* 0: neither messages nor timers are ever late
  MaxWait,  \* Late = 0: nobody waits longer than this who hears pushes, others a heartbeat longer
  Broken    \* the rules that are not kept; {} in the protocol

On(rule) == rule \notin Broken

Life    == Beat + 2                                \* of a place in the queue, since its last heartbeat
Long    == TTL + 2                                 \* what `extend` asks for
Margin(span) == IF "drift" \in May /\ On("drift-is-counted") THEN 1 ELSE 0  \* what a client does not rely on
MinHold == IF "min_hold" \in May THEN 1 ELSE 0
Block(may) == IF On("tokens-are-reserved") /\ ("local" \in may \/ Linger > 0) THEN 2 ELSE 1
Spare(may) == IF "local" \in may \/ Linger > 0 THEN 1 ELSE 0  \* of the fencing tokens, for further sections
Far     == 99                                      \* a fencing token that is more than a minute ahead
Floor   == Long + 1

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Largest(S) == CHOOSE x \in S : \A y \in S : y <= x
Least(S)   == CHOOSE x \in S : \A y \in S : x <= y

\* The elements of a sequence at these places, in their order.
Picked(seq, places) ==
  LET at(k) == CHOOSE j \in places : Cardinality({i \in places : i < j}) = k - 1
  IN  [k \in 1..Cardinality(places) |-> seq[at(k)]]

Kind(p) == IF Limit > 0 THEN "limited" ELSE IF p \in Readers THEN "shared" ELSE "exclusive"

-----------------------------------------------------------------------------
(* The state. *)

VARIABLES
  srv,   \* the server: val, until: the lock's key and its expiry; mem: the sorted set of holders;
         \* queue; last: the last fencing token given out
  cl,    \* the clients, see Idle
  net,   \* commands and pushes under way, in no order. Replies are in order: `in` of their client
  left,  \* what of May may still happen; starts: how many attempts may still begin
  log    \* the judge's notes: top: the newest token of a section; kept: how long `min_hold` keeps
         \* others out; bad: what must not happen, and has

vars == <<srv, cl, net, left, log>>

\* Values of the lock's key. A token is <<process, number>>: it holds the lock exclusively.
Free == <<0, 0>>   Kept == <<0, 1>>   Plain == <<0, 2>>   Marker == <<0, 3>>

Idle == [ph |-> "idle",      \* idle, wait, held, linger (a lease without a section), dead
         n |-> 0,            \* the number of its latest token
         asked |-> FALSE,    \* `enter` is under way on this connection
         pair |-> <<>>,      \* <<S, t - S>>: S server time in the latest BUSY, t when it was asked
         next |-> 0,         \* when its timer fires: to ask again, or to renew
         dl |-> 0,           \* the deadline of its lease
         f |-> 0,            \* the fencing token of its section, and how many are left behind it
         spare |-> 0,
         keep |-> 0,         \* the rest of `min_hold`
         lin |-> "no",       \* may the lease linger: no; may; on: `stay` is what is left of the time
         stay |-> 0,
         looked |-> FALSE,   \* has asked again when the holder's time of lingering was over
         age |-> 0,          \* Late = 0: how long it has waited, or held
         torn |-> FALSE,     \* the server was made to forget its lease (ghost)
         up |-> TRUE,        \* its connection
         ears |-> "on",      \* its push connection: on; off; mute: nothing arrives, but it does not know
         pend |-> {},        \* `leave` to be sent on the next connection: <<number, rest of min_hold>>
         in |-> <<>>]        \* replies under way

\* What stays when an attempt or a lease is over.
Over(c) == [Idle EXCEPT !.n = c.n, !.up = c.up, !.ears = c.ears, !.pend = c.pend, !.in = c.in]

Init == /\ srv = [val |-> Free, until |-> 0, mem |-> {}, queue |-> <<>>, last |-> 0]
        /\ cl = [p \in Procs |-> Idle]
        /\ net = {}
        /\ left = [may |-> May, starts |-> Starts]
        /\ log = [top |-> 0, kept |-> 0, bad |-> {}]

Happens(e) == e \in left.may /\ left' = [left EXCEPT !.may = @ \ {e}]

Enter(p, c)       == [cmd |-> "enter", p |-> p, n |-> c.n, at |-> 0, late |-> FALSE,
                      k |-> Block(left.may)]
Renew(p, c, ttl)  == [cmd |-> "renew", p |-> p, n |-> c.n, at |-> 0, late |-> FALSE, ttl |-> ttl]
Leave(p, n)       == [cmd |-> "leave", p |-> p, n |-> n, late |-> FALSE, cancel |-> FALSE, gap |-> FALSE,
                      hold |-> 0, sure |-> 0]  \* sure: the deadline, if sent once; else 0
Push(x, t)        == [cmd |-> x, p |-> t[1], n |-> t[2]]
Commands          == {"enter", "renew", "leave"}

-----------------------------------------------------------------------------
(* The server. Each script runs as a whole. It returns its reply and pushes. *)

IsMarked(s) == s.val = Marker /\ s.mem /= {} /\ s.until = Largest({m[2] : m \in s.mem})
Members(s)  == {m[1] : m \in s.mem}
Holds(s, t) == s.val = t \/ (IsMarked(s) /\ t \in Members(s))
InQueue(s, t) == \E i \in DOMAIN s.queue : s.queue[i].t = t
Without(s, t) == [s EXCEPT !.queue = SelectSeq(@, LAMBDA e : e.t /= t)]
Live(s)       == SelectSeq(s.queue, LAMBDA e : e.until > 0)

Room(s, t) == \/ s.val = Free
              \/ /\ IsMarked(s) /\ Kind(t[1]) /= "exclusive"
                 /\ Limit > 0 => Cardinality(s.mem) < Limit

\* The lock is t's for at least d from now. Never shortens.
Give(s, t, d) ==
  IF Kind(t[1]) = "exclusive"
  THEN [s EXCEPT !.until = IF s.val = t THEN Max(@, d) ELSE d, !.val = t]
  ELSE LET old  == IF s.val = Free /\ On("old-set-is-deleted") THEN {} ELSE s.mem
           mine == {m[2] : m \in {m \in old : m[1] = t}}
           new  == {m \in old : m[1] /= t} \cup {<<t, Largest(mine \cup {d})>>}
       IN  [s EXCEPT !.val = Marker, !.mem = new, !.until = Largest({m[2] : m \in new})]

\* Grants the lock to the front of the queue, as far as there is room. Returns <<server, pushes>>.
RECURSIVE Serve(_, _)
Serve(s, out) ==
  IF s.queue = <<>> THEN <<s, out>>
  ELSE LET e == Head(s.queue)
           s1 == [s EXCEPT !.queue = Tail(@)]
           f == IF Kind(e.t[1]) = "exclusive" THEN s.last + 1 ELSE 0
           push == [cmd |-> "grant", p |-> e.t[1], n |-> e.t[2], us |-> 0,
                    f |-> IF On("token-is-drawn-at-the-grant") THEN f ELSE e.f]
       IN  IF e.until = 0 /\ On("dead-are-skipped") THEN Serve(s1, out)
           ELSE IF ~Room(s, e.t) THEN <<s, out>>
           ELSE Serve([Give(s1, e.t, Claim) EXCEPT !.last = IF f > 0 THEN @ + e.k ELSE @], out \cup {push})

\* Acquires a free lock, even past the queue; claims; queues; keeps the place in the queue.
DoEnter(s, m) ==
  LET t     == <<m.p, m.n>>
      first == Live(s) = <<>> \/ Head(Live(s)).t = t
      fresh == s.val = Free \/ (~Holds(s, t) /\ Room(s, t) /\ first)
      gets  == IF On("entry-is-removed") THEN Without(s, t) ELSE s
      fence == Kind(m.p) = "exclusive"
      entry == [t |-> t, until |-> Life, k |-> m.k, f |-> IF On("token-is-drawn-at-the-grant") THEN 0 ELSE s.last + 1]
      given == IF Holds(s, t) /\ ~On("mine-extends") THEN gets ELSE Give(gets, t, TTL)
      wanted(x) == IF Linger > 0 /\ x[1] \in Procs THEN {Push("wanted", x)} ELSE {}
      rest  == IF Limit > 0 /\ s.mem /= {} THEN Least({x[2] : x \in s.mem}) ELSE s.until
      reply == [cmd |-> "enter", n |-> m.n, at |-> m.at, us |-> 0]
  IN  IF fresh \/ Holds(s, t)
      THEN [s |-> [given EXCEPT !.last = IF fence THEN @ + m.k ELSE @],
            re |-> reply @@ [code |-> IF fresh THEN "FRESH" ELSE "MINE", f |-> IF fence THEN s.last + 1 ELSE 0],
            out |-> IF gets.queue /= <<>> THEN wanted(t) ELSE {}]
      ELSE [s |-> IF InQueue(s, t)
                  THEN [s EXCEPT !.queue = [i \in DOMAIN @ |-> IF @[i].t = t THEN [entry EXCEPT !.f = @] ELSE @[i]]]
                  ELSE [s EXCEPT !.queue = Append(@, entry),
                                 !.last = IF On("token-is-drawn-at-the-grant") THEN @ ELSE @ + m.k],
            re |-> reply @@ [code |-> "BUSY", rest |-> rest, lingers |-> Linger > 0 /\ s.val[1] \in Procs],
            out |-> wanted(s.val)]

\* Releases and serves the queue; or leaves the queue; or undoes what an earlier command of the token did.
DoLeave(s, m) ==
  LET t    == <<m.p, m.n>>
      re(code) == [cmd |-> "leave", n |-> m.n, sure |-> m.sure, code |-> code]
      rest == {x \in s.mem : x[1] /= t}
      free == [s EXCEPT !.val = Free, !.until = 0, !.mem = {}]
      only == IF rest = {} THEN free ELSE [s EXCEPT !.mem = rest, !.until = Largest({x[2] : x \in rest})]
      done(r, code) == [s |-> r[1], re |-> re(code), out |-> r[2]]
      cancels == m.cancel /\ ~On("cancel-tests-the-key")
      mine == s.val = t \/ (s.val[1] \in Procs /\ ~On("leave-compares"))
  IN  CASE mine /\ ~cancels /\ m.hold > 0 ->
             done(<<[s EXCEPT !.val = IF On("min-hold-replaces-the-token") THEN Kept ELSE @,
                              !.until = m.hold], {}>>, "RELEASED")
        [] mine /\ ~cancels /\ m.hold = 0 /\ m.gap /\ Live(s) /= <<>> ->
             done(<<[free EXCEPT !.queue = Live(s)], {Push("gap", Live(s)[1].t)}>>, "RELEASED")
        [] mine /\ ~cancels /\ m.hold = 0 /\ ~(m.gap /\ Live(s) /= <<>>) -> done(Serve(free, {}), "RELEASED")
        [] ~mine /\ Holds(s, t) -> done(Serve(only, {}), "RELEASED")
        [] OTHER ->  \* A writer that leaves the queue lets readers in.
             IF ~InQueue(s, t) THEN done(<<s, {}>>, "NOT_YOURS")
             ELSE done(IF IsMarked(s) THEN Serve(Without(s, t), {}) ELSE <<Without(s, t), {}>>, "CANCELLED")

\* Makes the lease last at least ttl. Never creates, never shortens.
DoRenew(s, m) ==
  LET t  == <<m.p, m.n>>
      re(code) == [cmd |-> "renew", n |-> m.n, at |-> m.at, ttl |-> m.ttl, code |-> code]
      half == \/ ~On("renewal-needs-its-place") /\ s.val = Marker
              \/ ~On("renewal-needs-the-marker") /\ t \in Members(s)
      s1 == IF s.val = t /\ ~On("renewal-never-shortens") THEN [s EXCEPT !.until = m.ttl]
            ELSE IF Holds(s, t) THEN Give(s, t, m.ttl) ELSE s
  IN  [s |-> s1, re |-> re(IF Holds(s, t) \/ half THEN "RENEWED" ELSE "NOT_YOURS"), out |-> {}]

\* Pushes reach those who live and listen.
Heard(pushes) == {m \in pushes : cl[m.p].ph /= "dead" /\ cl[m.p].ears = "on"}

\* again: the client has sent this `leave` twice, and the other one is still under way.
Executed(m, again) ==
  /\ m.cmd \in Commands
  /\ LET r == CASE m.cmd = "enter" -> DoEnter(srv, m)
                [] m.cmd = "leave" -> DoLeave(srv, m)
                [] m.cmd = "renew" -> DoRenew(srv, m)
     IN  /\ srv' = r.s
         /\ net' = (net \ {m}) \cup Heard(r.out) \cup (IF again THEN {[m EXCEPT !.sure = 0]} ELSE {})
         /\ cl' = IF m.late THEN cl ELSE [cl EXCEPT ![m.p].in = Append(@, [torn |-> cl[m.p].torn] @@ r.re)]
  /\ UNCHANGED <<left, log>>

Server(m) == Executed(m, FALSE)

\* A waiter whose push connection is gone is passed over. Its heartbeat queues it again.
PassedOver(t) == /\ InQueue(srv, t) /\ Happens("passed over")
                 /\ srv' = Without(srv, t) /\ UNCHANGED <<cl, net, log>>

-----------------------------------------------------------------------------
(* The client. What it does is [c: its new state, out: messages, log]. *)

Believes(c) == c.ph \in {"held", "linger"}   \* the deadline lies ahead: see Tick
Just(c)      == [c |-> c, out |-> {}, log |-> log]

\* A token that may have been applied and is not wanted is left, until that was answered.
Undo(p, c, m) ==
  IF ~c.up THEN [Just([c EXCEPT !.pend = @ \cup {<<m.n, m.hold>>}]) EXCEPT !.out = {}]
  ELSE IF \E x \in net : x.cmd = "leave" /\ x.p = p /\ x.n = m.n /\ ~x.late THEN Just(c)
  ELSE [Just(c) EXCEPT !.out = {m}]

\* A section begins, with this fencing token.
Begun(p, f) ==
  [log EXCEPT !.top = Max(@, f), !.kept = MinHold,
              !.bad = @ \cup (IF Kind(p) = "exclusive" /\ f <= log.top THEN {"token fell"} ELSE {})
                        \cup (IF log.kept > 0 THEN {"within min_hold"} ELSE {})]

\* The lock is ours until d, if that is not over yet.
Got(p, c, d, f, soon) ==
  IF d <= 0 THEN Undo(p, Over(c), Leave(p, c.n))
  ELSE [c |-> [Over(c) EXCEPT !.ph = "held", !.dl = d, !.f = f, !.keep = MinHold, !.next = soon,
                              !.spare = Spare(left.may),
                              !.lin = c.lin,
                              !.stay = CASE c.lin = "may" -> Linger [] c.lin = "on" -> c.stay [] OTHER -> 0],
        out |-> {}, log |-> Begun(p, f)]

\* Asks, even if an earlier `enter` is under way: its reply may be from before a grant.
Ask(p, c) == IF ~c.up THEN Just(c)
             ELSE [Just([c EXCEPT !.asked = TRUE]) EXCEPT !.out = {Enter(p, c)}]

\* The lease lasts until d at least.
Extend(c, d, r) == [c |-> [c EXCEPT !.dl = Max(@, d)], out |-> {},
                    log |-> IF c.torn /\ r.torn THEN [log EXCEPT !.bad = @ \cup {"revived"}] ELSE log]

Lost(p, c) == Undo(p, Over(c), [Leave(p, c.n) EXCEPT !.hold = c.keep])

OnEntered(p, c, r) ==
  LET d == (IF On("reply-counts-from-its-request") THEN r.at ELSE 0) + TTL - Margin(TTL)
      awaited == c.ph = "wait" /\ c.n = r.n
      seen == c.looked \/ r.lingers
      due == CASE ~On("waiter-asks-by-itself") -> r.rest
               [] r.lingers /\ ~c.looked       -> Min(Linger, Min(Beat, r.rest))
               [] r.lingers /\ On("late-keeper-is-asked-again") -> 1
               [] OTHER -> Min(IF On("heartbeat-is-shorter-than-claim") THEN Beat ELSE Claim + 1, r.rest)
  IN  CASE awaited /\ r.code /= "BUSY" -> Got(p, c, d, r.f, 1)
        [] awaited /\ r.code = "BUSY" ->
             Just([c EXCEPT !.asked = FALSE, !.pair = <<r.us, r.at - r.us>>, !.next = Max(1, due), !.looked = seen,
                            !.lin = IF On("no-lingering-after-a-wait") THEN "no" ELSE @])
        [] Believes(c) /\ c.n = r.n ->
             CASE r.code = "BUSY" -> Just(c)   \* ignored: the renewal decides
               [] r.code = "FRESH" /\ On("fresh-is-a-loss") -> Lost(p, c)
               [] OTHER -> Extend(c, r.at + TTL - Margin(TTL), r)
        [] OTHER -> Undo(p, c, Leave(p, r.n))

OnGrant(p, c, g) ==
  LET S == c.pair[1]
      span == (IF g.us < S THEN 0 ELSE g.us - S) + Claim
      d == IF ~On("push-counts-from-its-grant") THEN Claim
           ELSE c.pair[2] + S + span - Margin(span)  \* t + (G - S) + C
  IN  IF c.ph = "wait" /\ c.n = g.n
      THEN IF c.pair = <<>> \/ ~c.up \/ (g.f = Far /\ On("far-token-is-asked-for")) THEN Ask(p, c)
           ELSE IF g.us < S /\ On("stale-push-is-ignored") THEN Just(c)
           ELSE IF 2 * d > Claim THEN Got(p, [c EXCEPT !.lin = IF On("no-lingering-after-a-wait") THEN "no" ELSE @],
                                          d, g.f, 0)
           ELSE Ask(p, c)
      ELSE IF Believes(c) /\ c.n = g.n THEN Just(c)
      ELSE Undo(p, c, Leave(p, g.n))

\* Somebody wants the lock.
OnWanted(p, c, w) ==
  IF c.n /= w.n \/ ~On("wanted-is-heeded") THEN Just(c)
  ELSE IF c.ph = "linger" THEN Undo(p, Over(c), Leave(p, c.n))
  ELSE IF c.ph \in {"held", "wait"} /\ On("wanted-in-a-section-is-remembered") THEN Just([c EXCEPT !.lin = "no"])
  ELSE Just(c)

Do(p, r, rest) == /\ cl' = [cl EXCEPT ![p] = r.c]
                  /\ net' = rest \cup r.out
                  /\ log' = r.log

\* Reply i is noticed. If its token is in use, replies to earlier commands for it then say nothing new, if they come.
Noticed(p, i) ==
  LET r == cl[p].in[i]
      older(j) == j < i /\ cl[p].in[j].cmd = r.cmd /\ r.cmd = "enter"
                  /\ cl[p].in[j].n = r.n /\ cl[p].n = r.n /\ cl[p].ph /= "idle"
      rest == {j \in DOMAIN cl[p].in : j /= i /\ ~older(j)}
      c == [cl[p] EXCEPT !.in = Picked(@, rest)]
  IN  /\ Do(p, CASE r.cmd = "enter" -> OnEntered(p, c, r)
                 [] r.cmd = "leave" ->  \* "not yours" is a loss only if the release was sent once, and in time
                      [Just(c) EXCEPT !.log.bad = @ \cup (IF r.code = "NOT_YOURS" /\ r.sure > 0 THEN {"false loss"}
                                                          ELSE {})]
                 [] r.cmd = "renew" /\ c.ph = "held" /\ c.n = r.n /\ r.code = "RENEWED" ->
                      Extend(c, r.at + r.ttl - Margin(r.ttl), r)
                 [] r.cmd = "renew" /\ c.ph = "held" /\ c.n = r.n /\ r.code = "NOT_YOURS" ->
                      [Lost(p, c) EXCEPT !.log.bad = @ \cup (IF c.torn THEN {} ELSE {"false loss"})]
                 [] OTHER -> Just(c), net)
      /\ UNCHANGED srv

\* Different tasks await the replies, so a later one may be noticed first.
Reply(p) == \E i \in DOMAIN cl[p].in : Noticed(p, i) /\ IF i > 1 THEN Happens("overtake") ELSE UNCHANGED left

\* A push arrives; perhaps once more later.
Delivered(m, keep) ==
  LET c == cl[m.p] IN
  /\ m.cmd \notin Commands
  /\ IF keep THEN Happens("double") ELSE UNCHANGED left
  /\ Do(m.p, CASE m.cmd = "grant"  -> OnGrant(m.p, c, m)
               [] m.cmd = "wanted" -> OnWanted(m.p, c, m)
               [] m.cmd = "gap"    -> IF c.ph = "wait" /\ c.n = m.n THEN Ask(m.p, c) ELSE Just(c),
        IF keep THEN net ELSE net \ {m})
  /\ UNCHANGED srv

Pushed(m) == \E keep \in {FALSE, TRUE} : Delivered(m, keep)

\* Without a connection, it asks on the next one.
Start(p) ==
  LET n == IF On("tokens-are-new") THEN cl[p].n + 1 ELSE 1
      c == [Over(cl[p]) EXCEPT !.ph = "wait", !.n = n, !.lin = IF Linger > 0 THEN "may" ELSE "no"]
  IN  /\ cl[p].ph = "idle" /\ left.starts > 0
      /\ cl[p].up \/ "start down" \in May
      /\ left' = [left EXCEPT !.starts = @ - 1]
      /\ Do(p, Ask(p, c), net)
      /\ UNCHANGED srv

\* A lease of this process does not last long enough for its next section, or has no fencing token left: asks for more
\* with the same token. Until the reply, nothing relies on the lease.
More(p) ==
  LET c == [Over(cl[p]) EXCEPT !.ph = "wait", !.lin = cl[p].lin, !.stay = cl[p].stay]
  IN  /\ Believes(cl[p]) /\ cl[p].keep = 0 /\ left.starts > 0 /\ Happens("more")
      /\ Do(p, Ask(p, c), net)
      /\ UNCHANGED srv

\* A process may give a lease that lingers back before its time is over, and need not let it linger.
GiveUp(p) == /\ cl[p].ph = "linger" /\ Happens("give up")
             /\ Do(p, Undo(p, Over(cl[p]), Leave(p, cl[p].n)), net)
             /\ UNCHANGED srv

\* A section comes back to a lease that lingers: without a command, with a fencing token of its own.
ComeBack(p) ==
  LET c == cl[p]
      f == IF On("no-token-serves-two-sections") THEN c.f + 1 ELSE c.f
  IN  /\ c.ph = "linger" /\ left.starts > 0 /\ c.spare > 0
      /\ left' = [left EXCEPT !.starts = @ - 1]
      /\ Do(p, [c |-> [c EXCEPT !.ph = "held", !.f = f, !.spare = @ - 1, !.next = 1, !.age = 0,
                                !.dl = IF On("lingering-does-not-prolong") THEN @ ELSE TTL - Margin(TTL)],
                out |-> {}, log |-> Begun(p, f)], net)
      /\ UNCHANGED srv

RenewalIsOut(p) == \/ \E m \in net : m.cmd = "renew" /\ m.p = p /\ ~m.late
                   \/ \E i \in DOMAIN cl[p].in : cl[p].in[i].cmd = "renew"

AskIsDue(p)   == cl[p].ph = "wait" /\ cl[p].up /\ ~cl[p].asked /\ cl[p].next = 0
RenewIsDue(p) == cl[p].ph = "held" /\ cl[p].up /\ cl[p].next = 0 /\ ~RenewalIsOut(p)
LingerIsDue(p) == cl[p].ph = "linger" /\ cl[p].stay = 0

Renews(p, ttl) == Do(p, [Just([cl[p] EXCEPT !.next = 1]) EXCEPT !.out = {Renew(p, cl[p], ttl)}], net)

Timer(p) ==
  /\ \/ AskIsDue(p) /\ On("waiter-has-a-timer") /\ Do(p, Ask(p, cl[p]), net)
     \/ RenewIsDue(p) /\ Renews(p, TTL)
     \/ LingerIsDue(p) /\ Do(p, Undo(p, Over(cl[p]), Leave(p, cl[p].n)), net)
  /\ UNCHANGED <<srv, left>>

\* `extend`: one longer lease, beside the renewals.
Longer(p) == /\ cl[p].ph = "held" /\ cl[p].up /\ Happens("extend")
             /\ Do(p, [Just(cl[p]) EXCEPT !.out = {Renew(p, cl[p], Long)}], net)
             /\ UNCHANGED srv

\* The section ends. The lease goes to the next task of this process, or lingers, or is given back.
HandedOn(p, c) == [c |-> [c EXCEPT !.f = @ + 1, !.spare = @ - 1, !.age = 0], out |-> {}, log |-> Begun(p, c.f + 1)]

Release(p) ==
  LET c == cl[p]
      stay == IF c.lin = "may" \/ ~On("time-of-lingering-counts-once") THEN Linger ELSE c.stay
      lingers == c.lin /= "no" /\ stay > 0 /\ c.up /\ (c.ears /= "off" \/ ~On("no-lingering-unheard"))
      given(gap) == LET m == [Leave(p, c.n) EXCEPT !.hold = c.keep, !.gap = gap, !.sure = c.dl]
                    IN  Undo(p, Over(c), m)
  IN  /\ c.ph = "held"
      /\ \/ Happens("local") /\ c.spare > 0 /\ c.keep = 0
              /\ Do(p, IF On("no-hand-on-after-leave") THEN HandedOn(p, c)
                    ELSE [HandedOn(p, c) EXCEPT !.out = given(FALSE).out], net)
         \/ UNCHANGED left /\ Do(p, IF lingers THEN Just([c EXCEPT !.ph = "linger", !.lin = "on", !.stay = stay,
                                                                  !.age = 0, !.next = 0])
                                    ELSE given(FALSE), net)
         \/ lingers /\ Happens("give up") /\ Do(p, given(FALSE), net)
         \/ Happens("gap") /\ ~lingers /\ c.keep = 0 /\ Do(p, given(TRUE), net)
      /\ UNCHANGED srv

Cancel(p) == /\ cl[p].ph = "wait" /\ Happens("cancel")
             /\ Do(p, Undo(p, Over(cl[p]), [Leave(p, cl[p].n) EXCEPT !.cancel = TRUE]), net)
             /\ UNCHANGED srv

-----------------------------------------------------------------------------
(* What may go wrong. *)

Unanswered(p) == {m \in net : m.p = p /\ m.cmd \in Commands /\ ~m.late}

\* The connection breaks: replies are lost, commands arrive late or never. So many replies have come, and are noticed
\* later.
Broke(p, kept) ==
  LET c == cl[p]
      lost == {c.in[i] : i \in kept + 1 .. Len(c.in)} \cup Unanswered(p)
      again == {<<m.n, IF m.cmd = "leave" /\ "hold" \in DOMAIN m THEN m.hold ELSE 0>> :
                  m \in {m \in lost : m.cmd = "leave" \/ (m.cmd = "enter" /\ ~(m.n = c.n /\ c.ph /= "idle"))}}
  IN  /\ c.up /\ c.ph /= "dead" /\ Happens("break")
      /\ cl' = [cl EXCEPT ![p] = [c EXCEPT !.up = FALSE, !.in = SubSeq(@, 1, kept), !.asked = FALSE, !.pair = <<>>,
                                           !.next = 0,
                                           !.pend = IF On("leave-is-repeated") THEN @ \cup again ELSE @]]
      /\ net' = {IF m \in Unanswered(p) THEN [m EXCEPT !.late = TRUE] ELSE m : m \in net}
      /\ UNCHANGED <<srv, log>>

Break(p) == \E kept \in IF "unread" \in May THEN 0 .. Len(cl[p].in) ELSE {0} : Broke(p, kept)

\* A new one: the old one is ended, then `leave` for what is not wanted, then `enter` for who waits.
Connect(p) ==
  LET c == [cl[p] EXCEPT !.up = TRUE, !.pend = {}, !.asked = cl[p].ph = "wait"]
      sure == IF On("repeated-leave-is-no-loss") THEN 0 ELSE TTL
      leaves == {[Leave(p, x[1]) EXCEPT !.hold = x[2], !.sure = sure] : x \in cl[p].pend}
      old == IF On("old-connection-is-ended") THEN {m \in net : m.p = p /\ m.cmd \in Commands /\ m.late} ELSE {}
  IN  /\ ~cl[p].up /\ cl[p].ph /= "dead"
      /\ Do(p, [Just(c) EXCEPT !.out = leaves \cup (IF c.asked THEN {Enter(p, c)} ELSE {})], net \ old)
      /\ UNCHANGED <<srv, left>>

\* A process ends without a word.
Crash(p) == /\ cl[p].ph /= "dead" /\ Happens("crash")
            /\ cl' = [cl EXCEPT ![p] = [Idle EXCEPT !.ph = "dead", !.up = FALSE]]
            /\ net' = {IF m.cmd \in Commands /\ m.p = p THEN [m EXCEPT !.late = TRUE] ELSE m :
                         m \in {m \in net : m.p /= p \/ m.cmd \in Commands}}
            /\ UNCHANGED <<srv, log>>

\* A waiter ended so long ago that its place in the queue has expired.
Died(p) == /\ InQueue(srv, <<p, cl[p].n>>) /\ cl[p].ph = "wait" /\ Happens("waiter died")
           /\ srv.val[1] /= p /\ ~\E m \in net : m.p = p
           /\ cl' = [cl EXCEPT ![p] = [Idle EXCEPT !.ph = "dead", !.up = FALSE]]
           /\ srv' = [srv EXCEPT !.queue = [i \in DOMAIN @ |-> IF @[i].t[1] = p THEN [@[i] EXCEPT !.until = 0] ELSE @[i]]]
           /\ UNCHANGED <<net, log>>

LosePush(m) == m.cmd \notin Commands /\ Happens("lose") /\ net' = net \ {m} /\ UNCHANGED <<srv, cl, log>>

\* The push connection ends, and the process knows it: no lease may linger. Or it does not know it.
Deafen(p) ==
  /\ cl[p].ears = "on" /\ Believes(cl[p])
  /\ \E how \in {"off", "mute"} :
       /\ Happens(how)
       /\ LET c == [cl[p] EXCEPT !.ears = how]
              kept == {m \in net : m.p /= p \/ m.cmd \in Commands}
          IN  IF how = "off" /\ c.ph = "linger" /\ On("no-lingering-unheard")
              THEN Do(p, Undo(p, Over(c), Leave(p, c.n)), kept)
              ELSE Do(p, Just(IF how = "off" /\ On("no-lingering-unheard") THEN [c EXCEPT !.lin = "no"] ELSE c), kept)
  /\ UNCHANGED srv

\* A process is late in giving up a lease that lingers.
Oversleep(p) == /\ LingerIsDue(p) /\ Happens("late")
                /\ cl' = [cl EXCEPT ![p].stay = 1] /\ UNCHANGED <<srv, net, log>>

\* Somebody who may publish makes up a grant whose fencing token is far ahead.
Forge(p) == /\ cl[p].ph = "wait" /\ Happens("forge")
            /\ net' = net \cup Heard({[cmd |-> "grant", p |-> p, n |-> cl[p].n, us |-> 0, f |-> Far]})
            /\ UNCHANGED <<srv, cl, log>>

\* The lock's key is deleted by hand while it is held: its holders are not protected any more, and are to learn of it.
Delete == /\ srv.val /= Free /\ Happens("delete")
          /\ \A t \in Members(srv) \cup {srv.val} : t[1] \in Procs => cl[t[1]].n = t[2] /\ Believes(cl[t[1]])
          /\ srv' = [srv EXCEPT !.val = Free, !.until = 0]
          /\ cl' = [p \in Procs |-> IF Believes(cl[p]) THEN [cl[p] EXCEPT !.torn = TRUE] ELSE cl[p]]
          /\ UNCHANGED <<net, log>>

\* A client that knows only SET NX PX and compare-and-delete, and polls.
PlainTakes   == srv.val = Free /\ Happens("plain") /\ srv' = [srv EXCEPT !.val = Plain, !.until = TTL]
                /\ UNCHANGED <<cl, net, log>>
PlainReleases == srv.val = Plain /\ srv' = [srv EXCEPT !.val = Free, !.until = 0] /\ UNCHANGED <<cl, net, left, log>>

-----------------------------------------------------------------------------
(* Time passes, and by the clock of at most one process it does not. *)

Back(t, d) == Max(t - d, -Floor)
Down(t, d) == Max(t - d, 0)

\* So many ticks of the server, and of a client. slow: by the client's clock no time passes.
ServerTicks(d) ==
  LET mem == {<<m[1], m[2] - d>> : m \in {m \in srv.mem : m[2] > d}}
      s == [srv EXCEPT !.until = Down(@, d), !.mem = mem,
                       !.queue = [i \in DOMAIN @ |-> [@[i] EXCEPT !.until = Down(@, d)]]]
  IN  IF s.until = 0 THEN [s EXCEPT !.val = Free] ELSE s

Older(m, d, slow) ==
  LET a == IF "at" \in DOMAIN m /\ ~slow THEN [m EXCEPT !.at = Back(@, d)] ELSE m
      b == IF "sure" \in DOMAIN a /\ ~slow THEN [a EXCEPT !.sure = Down(@, d)] ELSE a
  IN  IF "us" \in DOMAIN b THEN [b EXCEPT !.us = Back(@, d)] ELSE b

ClientTicks(c, d, slow) ==
  LET c1 == [c EXCEPT !.in = [i \in DOMAIN @ |-> Older(@[i], d, slow)],
                      !.pair = IF @ = <<>> THEN @ ELSE <<Back(@[1], d), IF slow THEN @[2] + d ELSE @[2]>>,
                      !.age = IF Late = 0 /\ c.ph \in {"wait", "held", "linger"} THEN Min(@ + d, MaxWait + Beat + 1) ELSE 0]
  IN  IF slow THEN c1
      ELSE [c1 EXCEPT !.next = Down(@, d), !.dl = Down(@, d), !.keep = Down(@, d),
                      !.stay = IF c.lin = "on" THEN Down(@, d) ELSE @,
                      !.pend = {<<x[1], Down(x[2], d)>> : x \in @}]

\* How many messages are under way.
RECURSIVE Replies(_)
Replies(S) == IF S = {} THEN 0 ELSE LET p == CHOOSE p \in S : TRUE IN Len(cl[p].in) + Replies(S \ {p})
UnderWay == Cardinality(net) + Replies(Procs)

\* No timer is due.
Quiet ==
  \A p \in Procs :
    /\ cl[p].up \/ cl[p].ph = "dead"
    /\ ~(AskIsDue(p) /\ On("waiter-has-a-timer")) /\ ~RenewIsDue(p) /\ ~LingerIsDue(p)
    /\ cl[p].ph = "held" => cl[p].age < Hold

\* A deadline that passes is a loss, before anything else happens.
Loses(p, d, slow) == Believes(cl[p]) /\ cl[p].dl <= d /\ ~slow

\* Time passes: d ticks by the clocks of the clients, but for z, and ds by the server's. No deadline is skipped.
Passes(z, d, ds) ==
  /\ srv' = ServerTicks(ds)
  /\ LET slow(p) == p = z
         c(p) == ClientTicks(cl[p], d, slow(p))
         chain(p) == "local" \in left.may /\ cl[p].ph = "held" /\ cl[p].spare > 0 /\ ~On("no-hand-on-after-a-loss")
         r(p) == IF ~Loses(p, d, slow(p)) THEN Just(c(p))
                 ELSE IF chain(p) THEN HandedOn(p, [c(p) EXCEPT !.dl = Claim])
                 ELSE Lost(p, c(p))
     IN  /\ cl' = [p \in Procs |-> r(p).c]
         /\ net' = {Older(m, d, slow(m.p)) : m \in net} \cup UNION {r(p).out : p \in Procs}
         /\ log' = [log EXCEPT !.kept = Down(@, d)]

Tick(z) == /\ UnderWay <= Late
           /\ Late = 0 => Quiet
           /\ Passes(z, 1, 1)
           /\ IF z \in Procs THEN Happens("drift") ELSE UNCHANGED left

-----------------------------------------------------------------------------
Next == \/ \E m \in net : Server(m) \/ Pushed(m) \/ LosePush(m)
        \/ \E i \in DOMAIN srv.queue : PassedOver(srv.queue[i].t)
        \/ \E p \in Procs : \/ Reply(p) \/ Start(p) \/ ComeBack(p) \/ Timer(p) \/ Longer(p) \/ Release(p)
                            \/ More(p) \/ GiveUp(p)
                            \/ Cancel(p) \/ Break(p) \/ Connect(p) \/ Crash(p) \/ Died(p) \/ Deafen(p) \/ Oversleep(p)
                            \/ Forge(p) \/ Tick(p)
        \/ Delete \/ PlainTakes \/ PlainReleases \/ Tick(0)

Spec == Init /\ [][Next]_vars /\ WF_vars(Next)

-----------------------------------------------------------------------------
(* The promises. *)

Holding == {p \in Procs : Believes(cl[p]) /\ ~cl[p].torn}

\* At most one believes that it holds the lock; or n; or readers, or one writer.
OneHolder ==
  /\ \A p, q \in Holding : p = q \/ (Kind(p) /= "exclusive" /\ Kind(q) /= "exclusive")
  /\ Limit > 0 => Cardinality(Holding) <= Limit
  /\ srv.val = Plain => Holding = {}

\* From section to section the fencing tokens rise, and the server knows each of them.
TokensRise  == "token fell" \notin log.bad
TokensKnown == log.top <= srv.last

\* A lease that the server has given up is never held again.
LossIsFinal == "revived" \notin log.bad

\* Nobody enters within a `min_hold`, and no loss is reported that was none.
MinHoldHolds == "within min_hold" \notin log.bad
NoFalseLoss  == "false loss" \notin log.bad

\* The process of a token knows it, or something is under way that will remind it.
IsKnown(t) ==
  LET c == cl[t[1]] IN
  \/ c.ph = "dead" \/ ~c.up
  \/ c.ph /= "idle" /\ c.n = t[2]
  \/ \E m \in net : m.p = t[1] /\ m.n = t[2]
  \/ \E i \in DOMAIN c.in : c.in[i].n = t[2]

\* Nothing is left of who has left: no lock, and no place in the queue, so no grant.
\* (Members of a set whose marker was deleted hold nothing: Give deletes it, or it expires.)
NoOrphan     == \A t \in {srv.val} \cup (IF IsMarked(srv) THEN Members(srv) ELSE {}) : t[1] \in Procs => IsKnown(t)
NoEmptyPlace == \A i \in DOMAIN srv.queue :
                  LET e == srv.queue[i]
                      c == cl[e.t[1]]
                  IN  e.until > 0 => IsKnown(e.t) /\ ~(Believes(c) /\ c.n = e.t[2] /\ ~c.torn)

\* Nobody waits for too long (Late = 0); waiting ends.
NoLongWait  == \A p \in Procs : cl[p].ph = "wait" =>
                 cl[p].age <= IF cl[p].ears = "on" THEN MaxWait ELSE MaxWait + Beat
WaitingEnds == \A p \in Procs : cl[p].ph = "wait" ~> cl[p].ph /= "wait"
Symmetry == Permutations(Procs)
=============================================================================
