------------------------------- MODULE Trace -------------------------------
(***************************************************************************)
(* A recorded run of real clients and a real server is a behaviour of      *)
(* DistLock. scripts/trace.py makes module Run of the record: its lines,   *)
(* its processes, and its times. A tick is a microsecond here. Each        *)
(* process is a client with a link of its own.                             *)
(*                                                                         *)
(* A line of the server is one of its steps. A line of a process is an     *)
(* event, what the process did then, and the state that it was in after    *)
(* that. Steps that no process notices come between the lines: time        *)
(* passes, messages are lost.                                              *)
(*                                                                         *)
(* TLC finds all states that fit the first line, then all that fit the     *)
(* second, and so on. If none fits the last one, the run is refused. The   *)
(* promises must be kept in all of these states.                           *)
(***************************************************************************)
EXTENDS DistLock, Run

VARIABLES
  i,      \* the line
  seen,   \* its event has happened: what the process does then is left
  now,    \* since the beginning of the run
  behind, \* so much of that has not yet passed for the server
  newest  \* <<number, fencing token>> of the newest section; only their order is the same

tvars == <<vars, i, seen, now, behind, newest>>

Line  == Lines[i]
Is(x) == i <= Len(Lines) /\ now = Line.t /\ Line.ev = x

\* Times, as DistLock wants them. A key of Redis lives until the millisecond of its end is over: RunTTL counts it in.
Millisecond       == 1000
RunMargin(span)   == Millisecond + (span - Millisecond) \div 100 + 2 * Millisecond
RunLife           == 10000 * Millisecond
RunFar            == 2000000000
RunBlock(may)     == 1024
RunSpare(may)     == 1023
RunHappens(event) == UNCHANGED left  \* as often as it was recorded

\* Recorded deadlines may be later than those of the model by so much: the server writes its time down before a script
\* reads it.
Tolerance == Millisecond

\* Redis compares expiries with a time that it reads when a script begins, and the recorded time is another one. In
\* between, the server may not run. So a key may end earlier or later by so much.
Slack == 20 * Millisecond

Start0 == Init /\ i = 1 /\ seen = FALSE /\ now = 0 /\ behind = 0 /\ newest = <<0, 0>>

-----------------------------------------------------------------------------
\* Until the next line, or until a deadline that comes first.
TimePasses ==
  /\ i <= Len(Lines) /\ now < Line.t
  /\ LET ends == {cl[p].dl : p \in {p \in Procs : Believes(cl[p])}}
         then == Least({Line.t} \cup {now + e : e \in ends})
         whole == behind + Millisecond * (then \div Millisecond - now \div Millisecond)
         alive == srv.until - Millisecond  \* then the key has not ended yet
         late == IF srv.until > 0 /\ alive < whole /\ whole - alive <= Slack THEN {alive} ELSE {}
     IN  /\ \E ds \in {whole} \cup late : Passes(0, then - now, ds) /\ behind' = whole - ds
         /\ now' = then
  /\ UNCHANGED <<left, i, seen, newest>>

\* The key ends before it is due.
EndsEarly ==
  /\ Is("server") /\ srv.val /= Free /\ srv.until <= Slack
  /\ srv' = [srv EXCEPT !.val = Free, !.until = 0]
  /\ UNCHANGED <<cl, net, left, log, i, seen, now, behind, newest>>

\* Pushes that no later line tells of are lost.
Coming(messages) == {m \in messages : m.cmd \in Commands \/ HeardUntil[m.cmd][m.p][m.n] > i}

-----------------------------------------------------------------------------
\* The server.

\* `leave_alone` does nothing unless the token has the lock and none waits.
DoesNothing == Line.cmd = "leave_alone" /\ (srv.val /= <<Line.p, Line.n>> \/ srv.queue /= <<>>)

ServerLine ==
  /\ Is("server")
  /\ LET over == {t \in Line.over : InQueue(srv, t)}
         cmd == IF Line.cmd = "leave_alone" THEN "leave" ELSE Line.cmd
     IN  \/ /\ over /= {}
            /\ PassedOver(CHOOSE t \in over : TRUE)
            /\ i' = i
         \/ /\ over = {} /\ DoesNothing
            /\ UNCHANGED vars
            /\ i' = i + 1
         \/ /\ over = {} /\ ~DoesNothing
            /\ \E m \in net : /\ m.cmd = cmd /\ m.p = Line.p /\ m.n = Line.n
                              /\ cmd = "renew" => m.ttl = Line.ttl
                              /\ Executed(m, Line.more)
            /\ i' = i + 1
  /\ UNCHANGED <<seen, now, behind, newest>>

-----------------------------------------------------------------------------
\* A process. First the event.

Link == \/ Line.up = cl[Line.p].up /\ UNCHANGED vars
        \/ Line.up /\ Connect(Line.p)
        \/ ~Line.up /\ Broke(Line.p, Least({Line.kept, Len(cl[Line.p].in)}))

Replied(j) == LET r == cl[Line.p].in[j]
              IN  /\ r.cmd = Line.cmd /\ r.n = Line.tn /\ r.code = Line.code
                  /\ r.cmd = "renew" => r.ttl = Line.ttl

Answered ==
  LET c == cl[Line.p]
      fit == {j \in DOMAIN c.in : Replied(j)}
  IN  \/ Line.code = "failed" /\ UNCHANGED vars
      \/ /\ Line.stale
         \* The model may have dropped it together with the reply to a later command (Noticed).
         /\ \/ UNCHANGED cl
            \/ \E j \in fit : cl' = [cl EXCEPT ![Line.p].in = Picked(@, DOMAIN @ \ {j})]
         /\ UNCHANGED <<srv, net, left, log>>
      \* The same, when the token is over: then a reply does not count as stale.
      \/ /\ Line.cmd = "enter" /\ ~Line.stale /\ fit = {} /\ c.n /= Line.tn
         /\ UNCHANGED vars
      \/ /\ Line.code /= "failed" /\ ~Line.stale
         /\ \E j \in fit : Noticed(Line.p, j)
         /\ UNCHANGED left

Told == \E m \in net : m.cmd = Line.cmd /\ m.p = Line.p /\ m.n = Line.tn /\ Delivered(m, Line.again)

\* What the model undoes, the process undoes, too. (After a loss, when its section has ended.)
Undone == {m.n : m \in {m \in net' \ net : m.cmd = "leave" /\ m.p = Line.p}}

EventLine ==
  /\ ~seen
  /\ \/ Is("link") /\ Link
     \/ Is("reply") /\ Answered
     \/ Is("push") /\ Told
  /\ (Line.ev \in {"reply", "push"} /\ ~Believes(cl[Line.p])) => Undone \subseteq Line.leaves
  /\ seen' = TRUE
  /\ UNCHANGED <<i, now, behind, newest>>

Crashes == Is("crash") /\ Crash(Line.p) /\ i' = i + 1 /\ UNCHANGED <<seen, now, behind, newest>>

\* Then what the process does of its own accord.
Here == /\ i <= Len(Lines) /\ now = Line.t
        /\ IF Line.ev = "other" THEN TRUE ELSE seen /\ Line.ev \in {"reply", "push", "link"}

Arrived ==
  LET c == cl[Line.p] IN
  IF Line.ev = "link" THEN TRUE
  ELSE /\ c.ph = Line.ph /\ (c.ph = "idle" \/ c.n = Line.n)
       /\ c.ph = "held" => IF log.top = newest[1] THEN ~Line.begins /\ Line.f = newest[2] ELSE Line.f > newest[2]

\* Timers are the process's own affair: it may ask and renew at any time.
IsOut(cmd, n) == \E m \in net : m.cmd = cmd /\ m.p = Line.p /\ m.n = n /\ m.at = 0
Asks   == Line.ev /= "link" /\ cl[Line.p].ph = "wait" /\ cl[Line.p].up /\ cl[Line.p].n \in Line.enters
          /\ ~IsOut("enter", cl[Line.p].n)
Extends == Line.ev /= "link" /\ cl[Line.p].ph = "held" /\ cl[Line.p].up /\ Line.renews /= {} /\ ~IsOut("renew", Line.n)

Moves ==
  LET p == Line.p
      c == cl[p]
      same == c.n = Line.n
      becomes(ph) == cl'[p].ph = ph /\ \A m \in net' \ net : m.cmd = "leave" => ~m.gap
  IN  /\ Here /\ ~Arrived /\ ~Asks
      /\ CASE c.ph = "idle" -> Line.ph /= "idle" /\ c.n < Line.n /\ Start(p)
           [] c.ph = "wait" -> Cancel(p)
           [] c.ph = "held" /\ same /\ Line.ph = "wait" -> More(p)
           [] c.ph = "held" /\ same /\ Line.ph \in {"held", "linger"} -> Release(p) /\ becomes(Line.ph)
           [] c.ph = "held" /\ ~(same /\ Line.ph /= "idle") -> Release(p) /\ becomes("idle")
           [] c.ph = "linger" /\ same /\ Line.ph = "held" -> ComeBack(p)
           [] c.ph = "linger" /\ same /\ Line.ph = "wait" -> More(p)
           [] c.ph = "linger" /\ ~(same /\ Line.ph /= "idle") -> GiveUp(p)
      \* Who gives a lease back sends the release in the same step.
      /\ c.ph \in {"held", "linger"} => Undone \subseteq Line.leaves
      /\ UNCHANGED <<i, seen, now, behind, newest>>

Sends == /\ Here
         /\ \/ Asks /\ Do(Line.p, Ask(Line.p, cl[Line.p]), net)
            \/ Arrived /\ Extends /\ Renews(Line.p, Largest(Line.renews))
         /\ UNCHANGED <<srv, left, i, seen, now, behind, newest>>

\* The state is the recorded one. From here on, its deadline counts.
Ends ==
  LET c == cl[Line.p]
      exact == IF Line.ev /= "link" /\ Believes(c) THEN [c EXCEPT !.dl = Line.dl] ELSE c
  IN  /\ Here /\ Arrived /\ ~Asks /\ ~Extends
      /\ Line.up = c.up
      /\ Line.ev /= "link" => Line.inside = (IF c.ph = "held" THEN 1 ELSE 0)  \* sections of this process
      /\ exact.dl <= c.dl + Tolerance
      /\ cl' = [cl EXCEPT ![Line.p] = exact]
      /\ net' = Coming(net)
      /\ newest' = IF log.top = newest[1] THEN newest
                   ELSE <<log.top, IF Line.ev /= "link" /\ c.ph = "held" THEN Line.f ELSE newest[2]>>
      /\ i' = i + 1 /\ seen' = FALSE
      /\ UNCHANGED <<srv, left, log, now, behind>>

TraceNext == TimePasses \/ EndsEarly \/ ServerLine \/ EventLine \/ Crashes \/ Moves \/ Sends \/ Ends
TraceSpec == Start0 /\ [][TraceNext]_tvars

\* Prints how far it has come.
ASSUME TLCSet(1, 0)
Progress == IF i > TLCGet(1) THEN TLCSet(1, i) /\ PrintT(<<"line", i>>) ELSE TRUE
=============================================================================
