<?php

// `Lock` of Symfony on Redis: asks again every 100 ms when it waits, and does not renew by itself.

require '/usr/share/php/Symfony/Component/Lock/autoload.php';
require __DIR__.'/adapter.php';

use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;

['host' => $host, 'port' => $port] = parse_url($argv[1]);
$redis = new Redis();
$redis->connect($host, $port, 1, null, 0, 1);
$factory = new LockFactory(new RedisStore($redis));

$acquire = function (string $key, float $ttl) use ($factory) {
    $lock = $factory->createLock($key, $ttl);

    return $lock->acquire() ? $lock : null;
};
$release = function ($lock) {
    $held = $lock->isAcquired();
    $lock->release();

    return $held;
};
serve('symfony-lock', 'php-symfony-lock', 0.1, $acquire, $release);
