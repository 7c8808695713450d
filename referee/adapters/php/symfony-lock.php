<?php

// `Lock` of Symfony on Redis: asks again every 100 ms when it waits, and does not renew by itself. It acquires a lock for
// `initialTtl`, and then sets the ttl: without a value, a client that is cut off in between leaves the lock for 300 s.

require '/usr/share/php/Symfony/Component/Lock/autoload.php';
require __DIR__.'/adapter.php';

use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;

['host' => $host, 'port' => $port] = parse_url($argv[1]);
$redis = new Redis();
$connected = fn () => $redis->isConnected() || $redis->connect($host, $port, 1, null, 0, 1);
$connected();

$acquire = function (string $key, float $ttl) use ($redis, $connected) {
    $connected();
    $lock = (new LockFactory(new RedisStore($redis, $ttl)))->createLock($key, $ttl);

    return $lock->acquire() ? $lock : null;
};
$release = function ($lock) use ($connected) {
    $connected();
    $held = $lock->isAcquired();
    $lock->release();

    return $held;
};
serve('symfony-lock', 'php-symfony-lock', 0.1, $acquire, $release, fn () => $redis->close());
