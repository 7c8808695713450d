------------------------------- MODULE Fence --------------------------------
(***************************************************************************)
(* Behind the lock: transactions of one key in a database that keeps the   *)
(* newest fencing token of the key, and the result of a request that is    *)
(* done once (`distlock-fence`).                                           *)
(*                                                                         *)
(* Of the lock only this is left: tokens rise, and a lease may end while   *)
(* its holder goes on without knowing it. So nothing here rests on leases, *)
(* clocks or the store of the lock. Several may be in their sections at    *)
(* once; the database alone keeps them apart.                              *)
(*                                                                         *)
(* With `Same`, the database keeps the locks, too (`SameDatabase`). There  *)
(* a transaction first asserts the lock: from then until it ends, nobody   *)
(* else gets the lock. The processes are then tasks, which may hand their  *)
(* lease on to each other without a command to the server.                 *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences, TLC

CONSTANTS
  Procs,
  Starts,   \* how many attempts the processes make, all together
  Begins,   \* how many transactions they begin, all together
  Ends,     \* how many leases end under their holders
  Breaks,   \* how many connections break, or processes die
  Once,     \* whether all attempts are the same request, which is to be done once
  Same,     \* whether the database keeps the locks, too
  Broken    \* the rules that are not kept

On(rule) == rule \notin Broken

VARIABLES
  lock,  \* holder: the number of the attempt that holds the lock, or 0; top: the newest token, which is also how many
         \* attempts there were; with Same: first: the first token of the latest lease; owned: its row names an owner
  cl,    \* the processes
  db,    \* token: the stored one; value: a number that each transaction reads and raises; result: whether one is stored
  txs,   \* the open transactions at the database, also those whose connection has broken
  left,  \* what may still happen
  log    \* the judge: done: the transactions that were committed, in their order; told: what callers were told

vars == <<lock, cl, db, txs, left, log>>

Idle == [ph |-> "idle",  \* idle; locked: it holds the lock, as far as it knows; open: in a transaction; sent: so was COMMIT;
                         \* after: behind a commit, where a rule is broken
         tok |-> 0,      \* the fencing token
         id |-> 0]       \* the number of its transaction

Init == /\ lock = [holder |-> 0, top |-> 0, first |-> 0, owned |-> FALSE]
        /\ cl = [p \in Procs |-> Idle]
        /\ db = [token |-> 0, value |-> 0, result |-> FALSE]
        /\ txs = {}
        /\ left = [starts |-> Starts, begins |-> Begins, ends |-> Ends, breaks |-> Breaks]
        /\ log = [done |-> <<>>, told |-> {}, bad |-> {}]

Less(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]

\* The open transaction of a process.
Mine(p, t) == t.id = cl[p].id /\ cl[p].ph \in {"open", "sent"}
Attached(t) == \E p \in Procs : Mine(p, t)
Change(t, new) == txs' = (txs \ {t}) \cup {new}
\* A release that comes after the end of its lease changes nothing.
Free(tok) == IF lock.holder = tok THEN [lock EXCEPT !.holder = 0, !.owned = FALSE] ELSE lock
Told(what, id) == [log EXCEPT !.told = @ \cup {<<what, id>>}]
Over(p) == cl' = [cl EXCEPT ![p] = Idle]

-----------------------------------------------------------------------------
(* The lock. *)

Acquire(p) ==
  /\ cl[p].ph = "idle" /\ lock.holder = 0 /\ Less("starts")
  /\ (Same /\ On("assertion-keeps-the-lock")) => ~\E t \in txs : t.asserted
  /\ lock' = [holder |-> lock.top + 1, top |-> lock.top + 1, first |-> IF Same THEN lock.top + 1 ELSE 0, owned |-> Same]
  /\ cl' = [cl EXCEPT ![p] = [Idle EXCEPT !.ph = "locked", !.tok = lock.top + 1]]
  /\ UNCHANGED <<db, txs, log>>

\* The lease ends. Its holder may be paused, and go on later as if nothing had happened.
LeaseEnds == /\ lock.holder /= 0 /\ Less("ends")
             /\ lock' = [lock EXCEPT !.holder = 0]
             /\ UNCHANGED <<cl, db, txs, log>>

\* Its row names its owner until somebody takes the lock, releases it by hand, or leaves its queue.
Unnamed == /\ lock.holder = 0 /\ lock.owned
           /\ lock' = [lock EXCEPT !.owned = FALSE]
           /\ UNCHANGED <<cl, db, txs, left, log>>

Release(p) == /\ cl[p].ph = "locked"
              /\ lock' = Free(cl[p].tok)
              /\ Over(p)
              /\ UNCHANGED <<db, txs, left, log>>

\* The section of p is over, or the connection of its transaction has broken. Its lease goes to q, with the next token.
HandOn(p, q) ==
  /\ Same /\ lock.holder /= 0 /\ lock.holder = cl[p].tok
  /\ cl[p].ph \in {"locked", "open", "sent"} /\ cl[q].ph = "idle"
  /\ left.starts > 0 /\ (cl[p].ph /= "locked" => left.breaks > 0)
  /\ left' = [left EXCEPT !.starts = @ - 1, !.breaks = IF cl[p].ph = "locked" THEN @ ELSE @ - 1]
  /\ lock' = [lock EXCEPT !.holder = lock.top + 1, !.top = @ + 1]
  /\ cl' = [cl EXCEPT ![p] = Idle, ![q] = [Idle EXCEPT !.ph = "locked", !.tok = lock.top + 1]]
  /\ log' = IF cl[p].ph = "locked" THEN log
            ELSE Told(IF cl[p].ph = "sent" /\ On("lost-answer-is-unknown") THEN "unknown" ELSE "refused", cl[p].id)
  /\ UNCHANGED <<db, txs>>

-----------------------------------------------------------------------------
(* A transaction. *)

\* A result that is stored is the answer; no transaction is needed for that.
Replay(p) == /\ Once /\ cl[p].ph = "locked" /\ db.result
             /\ lock' = Free(cl[p].tok)
             /\ Over(p)
             /\ log' = Told("replay", 0)
             /\ UNCHANGED <<db, txs, left>>

\* asserted: it has seen that the lock is held with its token; row: it has raised the stored token, and holds that row;
\* ran: its body has read the number `value`; looked: that there is no stored result was seen.
Begin(p) == /\ cl[p].ph = "locked" /\ ~(Once /\ db.result) /\ Less("begins")
            /\ LET id == Begins - left.begins + 1
               IN  /\ txs' = txs \cup {[id |-> id, tok |-> cl[p].tok, asserted |-> ~Same, row |-> FALSE, ran |-> FALSE,
                                        value |-> 0, looked |-> ~Once \/ ~On("look-again-behind-the-check"),
                                        sent |-> FALSE]}
                   /\ cl' = [cl EXCEPT ![p].ph = "open", ![p].id = id]
            /\ UNCHANGED <<lock, db, log>>

\* The database has the lock's row, too: the transaction locks it, and looks whether its lease has the lock. A lease that
\* has ended is accepted as long as its row names it.
IsHeld(t) == On("lock-is-asserted") => lock.owned /\ t.tok \in lock.first .. lock.top
AssertHeld(p, t) ==
  /\ Mine(p, t) /\ cl[p].ph = "open" /\ ~t.asserted
  /\ IF IsHeld(t)
     THEN Change(t, [t EXCEPT !.asserted = TRUE, !.row = ~On("table-beside-the-lock")]) /\ UNCHANGED <<lock, cl, log>>
     ELSE /\ txs' = txs \ {t}
          /\ lock' = Free(cl[p].tok)
          /\ Over(p)
          /\ log' = Told("refused", t.id)
  /\ UNCHANGED <<db, left>>

\* The stored token is compared and raised in one statement, which waits for the row.
Stale(t) == IF On("equal-is-not-stale") THEN t.tok < db.token ELSE t.tok <= db.token
Check(p, t) ==
  /\ Mine(p, t) /\ cl[p].ph = "open" /\ t.asserted /\ ~t.row
  /\ On("check-before-body") => ~t.ran
  /\ ~On("check-before-body") => t.ran
  /\ On("check-holds-the-row") => ~\E other \in txs : other.row
  /\ IF On("older-is-stale") /\ Stale(t)
     THEN /\ txs' = txs \ {t}
          /\ lock' = Free(cl[p].tok)
          /\ Over(p)
          /\ log' = [Told("refused", t.id) EXCEPT !.bad = @ \cup IF t.tok >= db.token THEN {"false stale"} ELSE {}]
     ELSE Change(t, [t EXCEPT !.row = TRUE]) /\ UNCHANGED <<lock, cl, log>>
  /\ UNCHANGED <<db, left>>

\* Behind the check, once more: somebody may have committed since the first look.
Look(p, t) ==
  /\ Mine(p, t) /\ cl[p].ph = "open" /\ t.row /\ ~t.looked
  /\ IF db.result
     THEN /\ txs' = txs \ {t}
          /\ lock' = Free(cl[p].tok)
          /\ Over(p)
          /\ log' = [Told("replay", 0) EXCEPT !.told = @ \cup {<<"refused", t.id>>}]
     ELSE Change(t, [t EXCEPT !.looked = TRUE]) /\ UNCHANGED <<lock, cl, log>>
  /\ UNCHANGED <<db, left>>

\* It reads the number, and writes one more.
Body(p, t) ==
  /\ Mine(p, t) /\ cl[p].ph = "open" /\ ~t.ran
  /\ On("check-before-body") => t.row /\ t.looked
  /\ Change(t, [t EXCEPT !.ran = TRUE, !.value = db.value + 1])
  /\ UNCHANGED <<lock, cl, db, left, log>>

\* The body fails, or the lost lease is noticed. The database rolls back at once, or when it notices that nobody is there.
Fail(p, t) ==
  /\ Mine(p, t) /\ cl[p].ph = "open"
  /\ lock' = Free(cl[p].tok)
  /\ Over(p)
  /\ log' = Told("refused", t.id)
  /\ UNCHANGED <<db, txs, left>>

SendCommit(p, t) ==
  /\ Mine(p, t) /\ cl[p].ph = "open" /\ t.ran /\ t.row /\ t.looked
  /\ Change(t, [t EXCEPT !.sent = TRUE])
  /\ cl' = [cl EXCEPT ![p].ph = "sent"]
  /\ lock' = IF On("commit-before-release") THEN lock ELSE Free(cl[p].tok)
  /\ UNCHANGED <<db, left, log>>

-----------------------------------------------------------------------------
(* The database. *)

\* COMMIT may be carried out although the connection has broken since it was sent.
Commit(t) ==
  /\ t.sent
  /\ txs' = txs \ {t}
  /\ db' = [token |-> t.tok, value |-> t.value, result |-> db.result \/ (Once /\ On("result-in-the-transaction"))]
  /\ log' = [log EXCEPT
       !.done = Append(@, [id |-> t.id, tok |-> t.tok]),
       !.bad = @ \cup (IF Attached(t) /\ lock.holder = 0 /\ left.ends = Ends THEN {"after the release"} ELSE {})
                 \cup (IF lock.first > t.tok THEN {"after the grant"} ELSE {})]
  /\ UNCHANGED <<lock, cl, left>>

\* Nobody is at the other end.
RollBack(t) == /\ ~Attached(t)
               /\ txs' = txs \ {t}
               /\ UNCHANGED <<lock, cl, db, left, log>>

Answer(p) ==
  /\ cl[p].ph = "sent" /\ ~\E t \in txs : t.id = cl[p].id
  /\ log' = Told("committed", cl[p].id)
  /\ cl' = [cl EXCEPT ![p].ph = IF Once /\ ~On("result-in-the-transaction") THEN "after" ELSE "locked"]
  /\ UNCHANGED <<lock, db, txs, left>>

\* Without that rule: the result is stored by a statement of its own.
Store(p) == /\ cl[p].ph = "after"
            /\ db' = [db EXCEPT !.result = TRUE]
            /\ cl' = [cl EXCEPT ![p].ph = "locked"]
            /\ UNCHANGED <<lock, txs, left, log>>

\* The connection breaks. Who has sent COMMIT does not know what has become of it. The caller may ask again.
Break(p) ==
  /\ cl[p].ph \in {"open", "sent"} /\ Less("breaks")
  /\ lock' = Free(cl[p].tok)
  /\ Over(p)
  /\ log' = Told(IF cl[p].ph = "sent" /\ On("lost-answer-is-unknown") THEN "unknown" ELSE "refused", cl[p].id)
  /\ UNCHANGED <<db, txs>>

\* A process dies. Its lease ends later.
Die(p) == /\ cl[p].ph /= "idle" /\ Less("breaks")
          /\ Over(p)
          /\ UNCHANGED <<lock, db, txs, log>>

\* That nothing goes on anywhere else is an error that TLC reports.
Done == txs = {} /\ (\A p \in Procs : cl[p].ph = "idle") /\ UNCHANGED vars

Next == \/ LeaseEnds \/ Unnamed
        \/ \E p \in Procs : \/ Acquire(p) \/ Release(p) \/ Replay(p) \/ Begin(p) \/ Answer(p) \/ Store(p) \/ Break(p) \/ Die(p)
                            \/ \E q \in Procs : HandOn(p, q)
                            \/ \E t \in txs : \/ AssertHeld(p, t) \/ Check(p, t) \/ Look(p, t)
                                            \/ Body(p, t) \/ Fail(p, t) \/ SendCommit(p, t)
        \/ \E t \in txs : Commit(t) \/ RollBack(t)
        \/ Done

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* The promises. *)

\* Transactions of one key are committed in the order of their tokens.
InOrder == \A i, j \in 1..Len(log.done) : i < j => log.done[i].tok <= log.done[j].tok

\* What a transaction has read is still so when it is committed.
NothingOverwritten == db.value = Len(log.done)

\* A request is carried out once, whatever dies when.
DoneOnce == Once => Len(log.done) <= 1

Committed == {log.done[i].id : i \in 1..Len(log.done)}

\* "Not committed" and "stale" are said of what is not, and never will be; "committed" and replays of what is.
AnswersAreTrue == /\ \A t \in log.told : t[1] = "refused" => t[2] \notin Committed /\ ~\E x \in txs : x.id = t[2] /\ x.sent
                  /\ \A t \in log.told : t[1] = "committed" => t[2] \in Committed
                  /\ (\E t \in log.told : t[1] = "replay") => Committed /= {}

\* Only who was overtaken is stale: a holder may make several transactions.
NoFalseStale == "false stale" \notin log.bad

\* Who gets a lock that was released sees all that was done under it.
NothingAfterRelease == "after the release" \notin log.bad

\* With Same: from the assertion to the end of a transaction, nobody else gets the lock, even if the lease has ended, or
\* the COMMIT was lost.
NothingAfterGrant == "after the grant" \notin log.bad

Symmetry == Permutations(Procs)
=============================================================================
