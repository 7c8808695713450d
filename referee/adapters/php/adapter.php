<?php

// What all adapters in PHP have in common. PHP has one thread, and a call that waits would keep all other requests
// from being read. So each library is asked once, and again after the time after which it would try again itself.

function say(string $line): void
{
    fwrite(STDOUT, str_replace("\n", ' ', $line)."\n");
}

function now(): float
{
    return hrtime(true) / 1e9;
}

/**
 * $acquire gets a key and a ttl in seconds, and returns a lock or null. $release says whether it was still held. $close
 * ends the connection after an error, as the end of a request does in PHP: a reply that comes after its time limit
 * would be taken for the reply to the next command.
 */
function serve(
    string $name,
    string $package,
    float $interval,
    callable $acquire,
    callable $release,
    callable $close,
): void {
    $version = shell_exec("dpkg-query --show --showformat='\${Version}' $package");
    say("hello $name $version tokens=no waits=yes renews=no");
    $waiting = $held = [];
    stream_set_blocking(STDIN, false);
    while (!feof(STDIN)) {
        [$read, $write, $except] = [[STDIN], null, null];
        $pause = $waiting ? max(0, min(array_column($waiting, 'next')) - now()) : 60;
        @stream_select($read, $write, $except, (int) $pause, (int) (fmod($pause, 1) * 1e6));
        while (($line = fgets(STDIN)) !== false) {
            $words = explode(' ', trim($line));
            $id = $words[1];
            if ($words[0] === 'acquire') {
                [, , $key, $ttl, $wait] = $words;
                $waiting[$id] = ['key' => $key, 'ttl' => $ttl / 1000, 'until' => now() + $wait / 1000, 'next' => 0];
            } else {
                // Its end is in there, too: it may ask the server.
                $said = attempt($close, function () use ($release, $id, &$held) {
                    $lock = $held[$id] ?? null;
                    unset($held[$id]);

                    return $lock !== null && $release($lock) ? 'released' : 'lost';
                });
                say("$id $said");
            }
        }
        foreach ($waiting as $id => $request) {
            if ($request['next'] > now()) {
                continue;
            }
            $said = attempt($close, function () use ($acquire, $request, $id, &$held) {
                $lock = $acquire($request['key'], $request['ttl']);
                if ($lock === null) {
                    return 'busy';
                }
                $held[$id] = $lock;

                return 'ok';
            });
            if ($said === 'busy' && now() < $request['until']) {
                $waiting[$id]['next'] = now() + $interval;
                continue;
            }
            unset($waiting[$id]);
            say("$id $said");
        }
    }
}

function attempt(callable $close, callable $work): string
{
    try {
        return $work();
    } catch (Throwable $error) {
        $close();
        return 'error '.get_class($error).': '.$error->getMessage().' '.$error->getPrevious()?->getMessage();
    }
}
