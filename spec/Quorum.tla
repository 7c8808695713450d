------------------------------- MODULE Quorum -------------------------------
(***************************************************************************)
(* The quorum of distlock (Redlock): one key on several independent        *)
(* servers, which may restart without their data. A lock is held with a    *)
(* majority of those servers that cannot have forgotten one.               *)
(*                                                                         *)
(* On each server the scripts of DistLock.tla run; here only what takes a  *)
(* free lock, renews and releases is left of them. Queue, pushes and       *)
(* clocks are there, membership, votes, undo and repair are here.          *)
(*                                                                         *)
(* Times are counted from now, in ticks, as in DistLock.tla.               *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Procs, Servers,
  Starts,   \* how many attempts the processes make, all together
  Renewals, \* how many rounds of renewal they make, all together
  Restarts, \* how many servers lose their data, one after the other or together
  Breaks,   \* how often a connection breaks
  TTL,
  Late,     \* how many messages may be under way while a tick passes; 0: messages and repairs are in time
  Broken    \* the rules that are not kept

On(rule) == rule \notin Broken

Max(a, b) == IF a > b THEN a ELSE b
Most == IF On("half-is-not-enough") THEN Cardinality(Servers) \div 2 + 1 ELSE Cardinality(Servers) \div 2
\* So long no lease can be left that a server has forgotten.
Longest == IF On("longest-ttl-counts") THEN TTL ELSE TTL - 1

VARIABLES
  sv,    \* the servers: val, until: who holds the lock there; top: the highest fencing token known there;
         \* young: a server that may have forgotten a lease does not count for so long, and until it was told top
  cl,    \* the clients
  net,   \* messages under way
  left,  \* starts, renewals, restarts, breaks that may still happen
  log    \* the judge: top: the newest token of a section; bad: what must not happen, and has

vars == <<sv, cl, net, left, log>>

Free == <<0, 0>>

Idle == [ph |-> "idle",   \* idle; ask: a round asks for the lock; fence: a higher token is written; held
         n |-> 0,         \* the number of its latest token: <<process, number>>
         r |-> 0,         \* the number of its latest round of renewal
         f |-> 0,         \* the first fencing token that it proposes, or has
         high |-> 0,      \* the highest that a server of its majority knew before
         yes |-> {}, no |-> {}, young |-> {},  \* the servers' replies to the round; young: "no" of those that do not count
         dl |-> 0,        \* the deadline of the lease that it asks for, or has
         next |-> 0,      \* the deadline, if the round of renewal succeeds; 0: there is none under way
         missing |-> {},  \* held, but not on these servers
         asked |-> {},    \* of those, asked since the last tick
         forgot |-> {}]   \* servers that lost their data after their "yes", before the section began: until the next
                          \* renewal, it does not know that the lock is missing there

AllLeft == [starts |-> Starts, renewals |-> Renewals, restarts |-> Restarts, breaks |-> Breaks]

Init == /\ sv = [s \in Servers |-> [val |-> Free, until |-> 0, top |-> 0, young |-> 0]]
        /\ cl = [p \in Procs |-> Idle]
        /\ net = {}
        /\ left = AllLeft
        /\ log = [top |-> 0, bad |-> {}]

\* A state that Spec reaches, from which renewals are checked: a process holds the lock on every server, the others have
\* tried once and failed, and no message is under way. Starts and the other limits count from here.
InitHeld == \E p \in Procs :
              /\ sv = [s \in Servers |-> [val |-> <<p, 1>>, until |-> TTL, top |-> 1, young |-> 0]]
              /\ cl = [q \in Procs |-> IF q = p THEN [Idle EXCEPT !.ph = "held", !.n = 1, !.f = 1, !.dl = TTL]
                                      ELSE [Idle EXCEPT !.n = 1, !.f = 1]]
              /\ net = {}
              /\ left = AllLeft
              /\ log = [top |-> 1, bad |-> {}]

Less(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]

Msg(cmd, p, s, n) == [cmd |-> cmd, p |-> p, s |-> s, n |-> n]
Take(p, s, c, repair) == Msg("take", p, s, c.n) @@ [f |-> c.f, ttl |-> c.dl, repair |-> repair]
ToServers == {"take", "fence", "renew", "leave"}

-----------------------------------------------------------------------------
(* A server. A reply says whether the server counts. *)

Server(m) ==
  LET s == sv[m.s]
      t == <<m.p, m.n>>
      mine == s.val = t
      reply(cmd, ok) == Msg(cmd, m.p, m.s, m.n) @@ [ok |-> ok, counts |-> s.young = 0 \/ ~On("young-servers-do-not-count")]
  IN
  /\ m.cmd \in ToServers
  /\ CASE m.cmd = "take" ->
            LET got == mine \/ s.val = Free
            IN  /\ sv' = [sv EXCEPT ![m.s] = IF got THEN [@ EXCEPT !.val = t, !.until = Max(@, m.ttl), !.top = Max(@, m.f)]
                                             ELSE @]
                /\ net' = (net \ {m}) \cup {reply("taken", got) @@ [last |-> s.top, repair |-> m.repair]}
       [] m.cmd = "fence" ->
            /\ sv' = [sv EXCEPT ![m.s].top = IF mine THEN Max(@, m.f) ELSE @]
            /\ net' = (net \ {m}) \cup {reply("fenced", mine) @@ [f |-> m.f]}
       [] m.cmd = "renew" ->
            /\ sv' = [sv EXCEPT ![m.s].until = IF mine THEN Max(@, TTL) ELSE @]
            /\ net' = (net \ {m}) \cup {reply("renewed", mine) @@ [r |-> m.r]}
       [] m.cmd = "leave" ->
            /\ sv' = [sv EXCEPT ![m.s] = IF mine THEN [@ EXCEPT !.val = Free, !.until = 0] ELSE @]
            /\ net' = net \ {m}
  /\ UNCHANGED <<cl, left, log>>

-----------------------------------------------------------------------------
(* A client. *)

Over(c) == [Idle EXCEPT !.n = c.n, !.f = c.f]

\* A token that is not wanted any more is released on all servers, whatever they replied.
LeaveAt(p, n, S) == {Msg("leave", p, s, n) : s \in S}
Undo(p, c) == LeaveAt(p, c.n, IF On("undo-on-all") THEN Servers ELSE Servers \ c.yes)

Do(p, c, out, rest) == cl' = [cl EXCEPT ![p] = c] /\ net' = rest \cup out

Start(p) ==
  LET c == [Over(cl[p]) EXCEPT !.ph = "ask", !.n = @ + 1, !.f = @ + 1, !.dl = TTL]
  IN  /\ cl[p].ph = "idle" /\ Less("starts")
      /\ Do(p, c, {Take(p, s, c, FALSE) : s \in Servers}, net)
      /\ UNCHANGED <<sv, log>>

\* A majority is ours, and a majority knows the token and knew none as high: the section begins. Servers that are
\* missing are asked again.
Held(p, c, rest) ==
  /\ Do(p, [Over(c) EXCEPT !.ph = "held", !.dl = IF On("counts-from-its-request") THEN c.dl ELSE TTL,
                           !.missing = Servers \ c.yes, !.forgot = c.forgot], {}, rest)
  /\ log' = [top |-> Max(log.top, c.f), bad |-> log.bad \cup (IF c.f <= log.top THEN {"token fell"} ELSE {})]

Fails(p, c, rest) == Do(p, Over(c), Undo(p, c), rest) /\ UNCHANGED log

\* What the replies so far mean.
Decide(p, c, rest) ==
  IF Cardinality(c.yes) >= Most
  THEN IF c.ph = "fence" \/ c.high < c.f \/ ~On("proposals-are-compared") THEN Held(p, c, rest)
       ELSE LET back == [c EXCEPT !.ph = "fence", !.f = c.high + 1, !.yes = {}, !.no = {}, !.forgot = {}]
            IN  /\ Do(p, back, {Msg("fence", p, s, c.n) @@ [f |-> back.f] : s \in c.yes}, rest)
                /\ UNCHANGED log
  ELSE IF Cardinality(c.no) > Cardinality(Servers) - Most THEN Fails(p, c, rest)
  ELSE Do(p, c, {}, rest) /\ UNCHANGED log

Voted(c, s, ok) == IF ok THEN [c EXCEPT !.yes = @ \cup {s}] ELSE [c EXCEPT !.no = @ \cup {s}]

Reply(m) ==
  LET c == cl[m.p]
      p == m.p
      wanted == c.n = m.n /\ c.ph /= "idle"
      rest == net \ {m}
  IN
  /\ m.cmd \notin ToServers
  /\ CASE m.cmd = "taken" /\ wanted /\ c.ph = "ask" /\ ~m.repair ->
            Decide(p, [Voted(c, m.s, m.ok /\ m.counts) EXCEPT !.high = IF m.ok /\ m.counts THEN Max(@, m.last) ELSE @], rest)
       [] m.cmd = "fenced" /\ wanted /\ c.ph = "fence" /\ m.f = c.f -> Decide(p, Voted(c, m.s, m.ok /\ m.counts), rest)
       [] m.cmd = "taken" /\ wanted /\ c.ph = "held" ->
            Do(p, IF m.ok THEN [c EXCEPT !.missing = @ \ {m.s}] ELSE c, {}, rest) /\ UNCHANGED log
       [] m.cmd = "renewed" /\ wanted /\ c.ph = "held" /\ (m.r = c.r \/ ~On("renewed-by-a-majority-of-this-round")) ->
            LET v == IF m.ok THEN [c EXCEPT !.yes = @ \cup {m.s}, !.missing = @ \ {m.s}]
                     ELSE IF m.counts THEN [c EXCEPT !.no = @ \cup {m.s}, !.missing = @ \cup {m.s}]
                     ELSE [c EXCEPT !.young = @ \cup {m.s}, !.missing = @ \cup {m.s}]
                most(S) == Cardinality(S) > Cardinality(Servers) - Most
            IN  IF Cardinality(v.yes) >= Most /\ c.next > 0
                THEN Do(p, [v EXCEPT !.dl = Max(@, c.next), !.next = 0], {}, rest) /\ UNCHANGED log
                ELSE IF most(v.no) \/ most(v.young)  \* lost: what is left elsewhere is released
                THEN /\ Do(p, Over(c), IF On("lost-is-released-elsewhere") THEN LeaveAt(p, c.n, Servers) ELSE {}, rest)
                     /\ UNCHANGED log
                ELSE Do(p, v, {}, rest) /\ UNCHANGED log
       \* Nobody wants it any more.
       [] m.cmd = "taken" /\ ~wanted -> Do(p, c, IF m.ok THEN LeaveAt(p, m.n, {m.s}) ELSE {}, rest) /\ UNCHANGED log
       [] OTHER -> Do(p, c, {}, rest) /\ UNCHANGED log
  /\ UNCHANGED <<sv, left>>

\* A round that is not decided is given up: a time limit, or a caller who does not wait any longer.
GiveUp(p) == /\ cl[p].ph \in {"ask", "fence"}
             /\ Fails(p, cl[p], net) /\ UNCHANGED <<sv, left>>

Release(p) == /\ cl[p].ph = "held"
              /\ Do(p, Over(cl[p]), LeaveAt(p, cl[p].n, Servers), net) /\ UNCHANGED <<sv, left, log>>

Renew(p) ==
  LET c == [cl[p] EXCEPT !.r = @ + 1, !.next = TTL,
                         !.yes = IF On("renewed-by-a-majority-of-this-round") THEN {} ELSE @, !.no = {}, !.young = {},
                         !.forgot = {}]
  IN  /\ cl[p].ph = "held" /\ Less("renewals")
      /\ Do(p, c, {Msg("renew", p, s, c.n) @@ [r |-> c.r] : s \in Servers}, net)
      /\ UNCHANGED <<sv, log>>

\* The lock is held, but not there: takes it there for the rest of the lease.
RepairIsDue(p, s) == /\ cl[p].ph = "held" /\ s \in cl[p].missing \ cl[p].asked
                     /\ On("missing-is-repaired")
                     /\ ~\E m \in net : m.p = p /\ m.s = s /\ m.cmd \in {"take", "taken"}

Repair(p, s) == /\ RepairIsDue(p, s)
                /\ Do(p, [cl[p] EXCEPT !.asked = @ \cup {s}], {Take(p, s, cl[p], TRUE)}, net)
                /\ UNCHANGED <<sv, left, log>>

-----------------------------------------------------------------------------
(* What may go wrong. *)

\* What the break of a connection does to the messages on it: none arrives, releases are sent again until they were
\* answered, and a token that nobody wants is released once more. A round counts the server as one that said no.
Cut(S, p) ==
  LET lost == {m \in net : m.p = p /\ m.s \in S}
      again == {m \in lost : m.cmd = "leave" \/ (m.cmd \in {"take", "taken"} /\ ~(cl[p].n = m.n /\ cl[p].ph /= "idle"))}
  IN  IF On("releases-are-repeated") THEN {Msg("leave", p, m.s, m.n) : m \in again} ELSE {}

Broke(c, S) == CASE c.ph \in {"ask", "fence"} ->
                      IF On("silence-is-no-consent") THEN [c EXCEPT !.no = @ \cup (S \ c.yes)] ELSE [c EXCEPT !.yes = @ \cup S]
                 [] OTHER -> c

Break(p, s) ==
  LET c == Broke(cl[p], IF \E m \in net : m.p = p /\ m.s = s /\ m.n = cl[p].n /\ m.cmd /= "leave" THEN {s} ELSE {})
      rest == {m \in net : ~(m.p = p /\ m.s = s)} \cup Cut({s}, p)
  IN  /\ \E m \in net : m.p = p /\ m.s = s
      /\ Less("breaks")
      /\ IF c.ph \in {"ask", "fence"} THEN Decide(p, c, rest) ELSE Do(p, c, {}, rest) /\ UNCHANGED log
      /\ UNCHANGED sv

\* A server restarts without its data. All connections to it break; holders learn that their lock is missing there.
Restart(s) ==
  /\ Less("restarts")
  /\ sv' = [sv EXCEPT ![s] = [val |-> Free, until |-> 0, top |-> 0, young |-> Longest]]
  /\ cl' = [p \in Procs |-> IF cl[p].ph = "held" THEN [cl[p] EXCEPT !.missing = @ \cup {s}, !.yes = @ \ {s}]
                            ELSE [Broke(cl[p], {s}) EXCEPT !.forgot = @ \cup ({s} \cap cl[p].yes)]]
  /\ net' = {m \in net : m.s /= s} \cup UNION {Cut({s}, p) : p \in Procs}
  /\ UNCHANGED log

\* It counts again when no lease can be left that it has forgotten, and when it was told the highest fencing token
\* that a majority of the others knows, who have not lost their data.
GrowsUp(s) ==
  /\ sv[s].young = 1
  /\ \E M \in SUBSET {x \in Servers \ {s} : sv[x].young = 0} :
       /\ Cardinality(M) >= Most
       /\ sv' = [sv EXCEPT ![s].young = 0,
                           ![s].top = IF On("counter-is-handed-over") THEN Max(@, CHOOSE t \in {sv[x].top : x \in M} :
                                                                                   \A x \in M : sv[x].top <= t) ELSE @]
  /\ UNCHANGED <<cl, net, left, log>>

-----------------------------------------------------------------------------
Down(t) == Max(t - 1, 0)

\* A deadline that passes is a loss.
Tick ==
  /\ Cardinality(net) <= Late
  /\ Late = 0 => \A p \in Procs, s \in Servers : ~RepairIsDue(p, s)
  /\ sv' = [s \in Servers |-> [sv[s] EXCEPT !.until = Down(@), !.val = IF sv[s].until <= 1 THEN Free ELSE @,
                                            !.young = IF @ > 1 THEN @ - 1 ELSE @]]
  /\ LET ends(p) == cl[p].ph /= "idle" /\ cl[p].dl = 1
     IN  /\ cl' = [p \in Procs |-> IF ends(p) THEN Over(cl[p])
                                   ELSE [cl[p] EXCEPT !.dl = Down(@), !.next = Down(@), !.asked = {}]]
         /\ net' = net \cup UNION {Undo(p, cl[p]) : p \in {p \in Procs : ends(p)}}
  /\ log' = [log EXCEPT !.bad = @ \cup IF Late = 0 /\ \E p \in Procs, s \in Servers : cl[p].ph = "held" /\ sv[s].val = Free
                                                                         /\ s \notin cl[p].asked \cup cl[p].forgot
                                       THEN {"missing"} ELSE {}]
  /\ UNCHANGED left

Next == \/ \E m \in net : Server(m) \/ Reply(m)
        \/ \E p \in Procs : Start(p) \/ GiveUp(p) \/ Release(p) \/ Renew(p) \/ \E s \in Servers : Repair(p, s) \/ Break(p, s)
        \/ \E s \in Servers : Restart(s) \/ GrowsUp(s)
        \/ Tick

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* The promises. *)

\* At most one believes that it holds the lock.
OneHolder == \A p, q \in Procs : cl[p].ph = "held" /\ cl[q].ph = "held" => p = q

TokensRise == "token fell" \notin log.bad

\* Without restarts: the deadline of a holder is not later than the leases on a majority of the servers.
KeptByMajority == \A p \in Procs :
                    cl[p].ph = "held" => Cardinality({s \in Servers : sv[s].val = <<p, cl[p].n>> /\ sv[s].until >= cl[p].dl}) >= Most

\* No server keeps a lock of who has left.
NoOrphan == \A s \in Servers :
              LET t == sv[s].val IN
              t /= Free => \/ (cl[t[1]].ph /= "idle" /\ cl[t[1]].n = t[2])
                           \/ \E m \in net : m.p = t[1] /\ m.n = t[2]

\* A lock that is held stands on every server that is free for it, or was asked since the last tick, or lost its data
\* before the section began (Late = 0).
NothingMissing == "missing" \notin log.bad

Symmetry == Permutations(Procs) \cup Permutations(Servers)
=============================================================================
