-- Releases a lock and hands it on; or leaves the queue; or undoes whatever an earlier command of the token may
-- have done. (Behind clock.lua; members.lua, leave.lua and
-- serve.lua follow.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   token  hold ms (0: none)  channel prefix  count  gap ms (0: none)  every us  since us
--        count: 1 where PUBLISH counts every subscriber, so that 0 means nobody listens
--        since: when the current run of hand-offs began; 0: it begins now
-- Reply  {RELEASED, token, 1 if the lock was left free for plain pollers}
--        {CANCELLED, token}   the lock was not ours, the queue entry was
--        {NOT_YOURS, token}   neither was

local lock, queue, entries, counter, members = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token = ARGV[1]
local hold = tonumber(ARGV[2])
local channels, count = ARGV[3], ARGV[4] == '1'
local gap, every, since = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local us = now()
local reply = {'RELEASED', token, 0}
-- What is in the lock's key while the queue is served; empty: nothing.
local there = ''

