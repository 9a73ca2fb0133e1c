"""Queues: one datagram under reassembly each, found by a keyed hash, counted against a limit.

Mirrors inet_frag_find, inet_frag_kill, inet_frag_destroy.  A queue leaves the hash and the wheel
when it is killed; its fragments and its row go when it is destroyed.
"""

from __future__ import annotations

from ippath.frag.hash import key_hash
from ippath.frag.runs import take_any
from ippath.frag.store import free_fragment, free_queue, new_queue
from ippath.frag.wheel import start_timer, stop_timer
from ippath.jit import cold, hot, kernel
from ippath.mib import M_Ip6ReasmFails, M_IpReasmFails
from ippath.reasons import DROPPED, HELD, R_NOT_SPECIFIED
from ippath.tables import (
    DEVSTAT_RX_DROPPED, FM_FIRST_KEY, FQDIR_DISCARDED, FQDIR_EVICT, FQDIR_HIGH, FQDIR_IPV4,
    FQDIR_LOW, FQDIR_MEM, FQDIR_NEWEST, FQDIR_OLDEST, FQDIR_PEAK, FQDIR_QUEUES, FQDIR_QUEUE_CHARGE,
    FQDIR_TIMEOUT_NS, FQ_DEVICE, FQ_DIR, FQ_ECN, FQ_FIRST, FQ_FIRST_KEY, FQ_FLAGS, FQ_FRAGMENTS,
    FQ_HASH, FQ_LAST_RUN, FQ_LEAST_HEADERS, FQ_LEN, FQ_MAX_DF_SIZE, FQ_MAX_SIZE, FQ_MEAT, FQ_NEWER,
    FQ_NEXT, FQ_OLDER, FQ_PEER, FQ_ROOT, FQ_SEEN, FQ_TAIL, FQ_WHOLE, FRAG_CHARGE, FRAG_DEVICE,
    FRAG_NEXT, FRAG_OWNER, KEY_WORDS, NONE,
)  # fmt: skip

ANY_SIZE = 1 << 16  # more than headers can take


@hot
def _same_key(s, q):
    for k in range(KEY_WORDS):
        if s.fq[q, FQ_FIRST_KEY + k] != s.frag_misc[FM_FIRST_KEY + k]:
            return False
    return True


@kernel
def charge(s, directory, by):
    """Add to the memory in use."""
    used = s.fqdir[directory, FQDIR_MEM] + by
    s.fqdir[directory, FQDIR_MEM] = used
    s.fqdir[directory, FQDIR_PEAK] = max(s.fqdir[directory, FQDIR_PEAK], used)


@kernel
def _create(s, directory, key, bucket, now):
    fq, q = s.fq, new_queue(s)
    fq[q, FQ_DIR] = directory
    fq[q, FQ_HASH] = key
    fq[q, FQ_NEXT] = s.fq_bucket[bucket]
    s.fq_bucket[bucket] = q
    for k in range(KEY_WORDS):
        fq[q, FQ_FIRST_KEY + k] = s.frag_misc[FM_FIRST_KEY + k]
    fq[q, FQ_SEEN] = 0
    fq[q, FQ_PEER] = NONE
    empty_queue(s, q)
    fq[q, FQ_MAX_SIZE] = 0
    fq[q, FQ_MAX_DF_SIZE] = 0
    fq[q, FQ_LEAST_HEADERS] = ANY_SIZE
    start_timer(s, q, now + s.fqdir[directory, FQDIR_TIMEOUT_NS])
    charge(s, directory, s.fqdir[directory, FQDIR_QUEUE_CHARGE])
    s.fqdir[directory, FQDIR_QUEUES] += 1
    if s.fqdir[directory, FQDIR_EVICT]:
        _put_newest(s, directory, q)
    return q


@cold
def _put_newest(s, directory, q):
    """The queue is the one that was touched last."""
    row, newest = s.fqdir[directory], s.fqdir[directory, FQDIR_NEWEST]
    s.fq[q, FQ_OLDER] = newest
    s.fq[q, FQ_NEWER] = NONE
    if newest == NONE:
        row[FQDIR_OLDEST] = q
    else:
        s.fq[newest, FQ_NEWER] = q
    row[FQDIR_NEWEST] = q


@cold
def _take_from_age(s, directory, q):
    """The queue is no longer among those that can be evicted, or will be put there anew."""
    row, older, newer = s.fqdir[directory], s.fq[q, FQ_OLDER], s.fq[q, FQ_NEWER]
    if older == NONE:
        row[FQDIR_OLDEST] = newer
    else:
        s.fq[older, FQ_NEWER] = newer
    if newer == NONE:
        row[FQDIR_NEWEST] = older
    else:
        s.fq[newer, FQ_OLDER] = older


@cold
def _evict(s, directory):
    """Let go of the queues that were not touched for longest (kernel: ip_evictor, up to 3.16)."""
    row = s.fqdir[directory]
    while row[FQDIR_MEM] > row[FQDIR_LOW] and row[FQDIR_OLDEST] != NONE:
        q = row[FQDIR_OLDEST]
        s.counters[M_IpReasmFails if directory == FQDIR_IPV4 else M_Ip6ReasmFails] += 1
        row[FQDIR_DISCARDED] += s.fq[q, FQ_FRAGMENTS]
        kill_queue(s, q)
        destroy_queue(s, q, DROPPED, R_NOT_SPECIFIED)


@kernel
def empty_queue(s, q):
    """Forget what was known of the datagram."""
    fq = s.fq
    fq[q, FQ_FLAGS] = 0
    fq[q, FQ_LEN] = 0
    fq[q, FQ_MEAT] = 0
    fq[q, FQ_FRAGMENTS] = 0
    fq[q, FQ_ECN] = 0
    fq[q, FQ_DEVICE] = NONE
    fq[q, FQ_ROOT] = fq[q, FQ_TAIL] = fq[q, FQ_LAST_RUN] = fq[q, FQ_FIRST] = NONE
    fq[q, FQ_WHOLE] = NONE


@hot
def is_over_limit(s, directory):
    """Is memory used up?  Asked before the queue is looked for, as since 4.18 (`inet_frag_find`)."""
    high = s.fqdir[directory, FQDIR_HIGH]
    return high == 0 or s.fqdir[directory, FQDIR_MEM] > high


@hot
def _look_up(s, directory, key):
    """(bucket, the queue with the key in FM_* or NONE)."""
    bucket = key & (s.fq_bucket.shape[0] - 1)
    q = s.fq_bucket[bucket]
    while q != NONE:
        if s.fq[q, FQ_HASH] == key and s.fq[q, FQ_DIR] == directory and _same_key(s, q):
            break
        q = s.fq[q, FQ_NEXT]
    return bucket, q


@kernel
def find_queue(s, directory, wide, now):
    """The queue with the key in FM_*, made if there is none; NONE if memory is used up."""
    evicts = s.fqdir[directory, FQDIR_EVICT] != 0
    if is_over_limit(s, directory):
        if not evicts:
            return NONE
        _evict(s, directory)
    key = key_hash(s.frag_misc, wide)
    bucket, q = _look_up(s, directory, key)
    if q == NONE:
        return _create(s, directory, key, bucket, now)
    if evicts:
        _take_from_age(s, directory, q)
        _put_newest(s, directory, q)
    return q


@kernel
def is_known(s, directory, wide):
    """Is there a queue with the key in FM_*?"""
    return _look_up(s, directory, key_hash(s.frag_misc, wide))[1] != NONE


@kernel
def kill_queue(s, q):
    """Take the queue out of hash and wheel: the next fragment of the datagram makes a new one."""
    fq = s.fq
    bucket = fq[q, FQ_HASH] & (s.fq_bucket.shape[0] - 1)
    at = s.fq_bucket[bucket]
    if at == q:
        s.fq_bucket[bucket] = fq[q, FQ_NEXT]
    else:
        while fq[at, FQ_NEXT] != q:
            at = fq[at, FQ_NEXT]
        fq[at, FQ_NEXT] = fq[q, FQ_NEXT]
    stop_timer(s, q)
    if s.fqdir[fq[q, FQ_DIR], FQDIR_EVICT]:
        _take_from_age(s, fq[q, FQ_DIR], q)


@kernel
def _settle(s, f, verdict, reason):
    """A fragment that was held has its last verdict."""
    s.verdicts[HELD] -= 1
    s.verdicts[verdict] += 1
    if verdict == DROPPED:
        s.reasons[reason] += 1
        if s.frag[f, FRAG_DEVICE] >= 0:
            s.devstat[s.frag[f, FRAG_DEVICE], DEVSTAT_RX_DROPPED] += 1


@kernel
def release_fragments(s, q, verdict, reason, in_hand=NONE):
    """Let go of all fragments of the queue, each with this verdict but the one in hand."""
    freed = 0
    while True:
        f = take_any(s, q)
        if f == NONE:
            f = s.fq[q, FQ_WHOLE]
            s.fq[q, FQ_WHOLE] = NONE
        if f == NONE:
            break
        while f != NONE:
            following = s.frag[f, FRAG_NEXT]
            if s.frag[f, FRAG_OWNER] == f:  # else a piece of another
                freed += s.frag[f, FRAG_CHARGE]
                if f != in_hand:
                    _settle(s, f, verdict, reason)
            free_fragment(s, f)
            f = following
    s.fqdir[s.fq[q, FQ_DIR], FQDIR_MEM] -= freed


@kernel
def destroy_queue(s, q, verdict, reason, in_hand=NONE):
    """Let go of a killed queue and of what it holds."""
    directory = s.fq[q, FQ_DIR]
    release_fragments(s, q, verdict, reason, in_hand)
    s.fqdir[directory, FQDIR_MEM] -= s.fqdir[directory, FQDIR_QUEUE_CHARGE]
    s.fqdir[directory, FQDIR_QUEUES] -= 1
    free_queue(s, q)
