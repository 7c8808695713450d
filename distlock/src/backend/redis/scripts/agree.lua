-- Records that a list of servers is agreed upon. A command that arrives late must not replace another list.
--
-- KEYS   list
-- ARGV   the list as it was proposed  the list
-- Reply  1

if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1
