//! Places for connections, shared out so that nobody can take all of them.
//!
//! A connection is a stranger's until a request on it has passed the [`guard`](super::guard), which off loopback means that
//! it has shown the token. Strangers and those who were let in have places of their own. A stranger who finds all of theirs
//! taken gets the place of the one who has been a stranger longest: whoever has the token shows it at once. No address but
//! loopback has more than [`MOST_OF_ONE`].

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};

/// Connections of strangers at a time.
const MOST_STRANGERS: usize = 64;

/// Connections of those who were let in. Enough for all pages that may be open.
const MOST_LET_IN: usize = 192;

/// Connections from one address; loopback is one address for many: tunnels, a proxy.
const MOST_OF_ONE: usize = 16;

/// All places.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    /// By their numbers, which rise.
    strangers: BTreeMap<u64, Weak<Visitor>>,
    let_in: usize,
    by_address: HashMap<IpAddr, usize>,
    next: u64,
}

/// A connection's place. It is free again when the last copy is dropped.
#[derive(Debug)]
pub(super) struct Visitor {
    places: Places,
    number: u64,
    address: IpAddr,
    let_in: AtomicBool,
    sent_away: AtomicBool,
    /// Of the connection, which must notice that it is sent away.
    waker: Mutex<Option<Waker>>,
    /// Answers that are being worked out or sent.
    under_way: AtomicUsize,
    /// Answers that have ended.
    answered: AtomicUsize,
}

impl Places {
    /// A place for a connection from this address, unless it has too many.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Arc<Visitor>> {
        let address = address.to_canonical();
        let mut taken = self.lock();
        let of_one = taken.by_address.entry(address).or_default();
        if *of_one >= MOST_OF_ONE && !address.is_loopback() {
            return None;
        }
        *of_one += 1;
        let number = taken.next;
        taken.next += 1;
        let oldest = if taken.strangers.len() >= MOST_STRANGERS { taken.strangers.pop_first() } else { None };
        let visitor = Arc::new(Visitor {
            places: self.clone(),
            number,
            address,
            let_in: false.into(),
            sent_away: false.into(),
            waker: Mutex::default(),
            under_way: 0.into(),
            answered: 0.into(),
        });
        taken.strangers.insert(number, Arc::downgrade(&visitor));
        // Another's last copy may end here, which needs the lock.
        drop(taken);
        if let Some(oldest) = oldest.and_then(|(_, oldest)| oldest.upgrade()) {
            oldest.send_away();
        }
        Some(visitor)
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visitor {
    /// Is a stranger no longer; false if there is no place.
    pub(super) fn let_in(&self) -> bool {
        if self.let_in.load(Ordering::Acquire) {
            return true;
        }
        let mut taken = self.places.lock();
        // Who has been sent away meanwhile is no longer among the strangers.
        if taken.let_in >= MOST_LET_IN || taken.strangers.remove(&self.number).is_none() {
            return false;
        }
        taken.let_in += 1;
        self.let_in.store(true, Ordering::Release);
        true
    }

    fn send_away(&self) {
        self.sent_away.store(true, Ordering::Release);
        if let Some(waker) = self.waker().take() {
            waker.wake();
        }
    }

    /// Whether the connection must end for another's sake; if not, it is woken when it must.
    pub(super) fn is_sent_away(&self, cx: &Context<'_>) -> bool {
        let mut waker = self.waker();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.sent_away.load(Ordering::Acquire)
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an answer, which lasts until the result is dropped.
    pub(super) fn answer(self: &Arc<Self>) -> Answering {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Answering(Arc::clone(self))
    }

    /// Whether an answer is being worked out or sent.
    pub(super) fn is_answered_just_now(&self) -> bool {
        self.under_way.load(Ordering::Acquire) > 0
    }

    /// How many answers have ended.
    pub(super) fn answered(&self) -> usize {
        self.answered.load(Ordering::Acquire)
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if self.let_in.load(Ordering::Acquire) {
            taken.let_in -= 1;
        } else {
            taken.strangers.remove(&self.number);
        }
        if let Some(of_one) = taken.by_address.get_mut(&self.address) {
            *of_one -= 1;
            if *of_one == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

/// An answer that is being worked out or sent.
#[derive(Debug)]
pub(super) struct Answering(Arc<Visitor>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::AcqRel);
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_away(visitor: &Visitor) -> bool {
        visitor.is_sent_away(&Context::from_waker(Waker::noop()))
    }

    fn address(number: usize) -> IpAddr {
        IpAddr::from([10, 0, (number >> 8) as u8, number as u8])
    }

    #[test]
    fn one_address_cannot_take_all_places() {
        let places = Places::default();
        let mut of_one: Vec<_> = (0..20).filter_map(|_| places.enter(address(1))).collect();
        assert_eq!(of_one.len(), MOST_OF_ONE);
        assert!(places.enter("::ffff:10.0.0.1".parse().unwrap()).is_none(), "it is the same address");
        assert!(places.enter(address(2)).is_some());
        of_one.pop();
        assert!(places.enter(address(1)).is_some(), "a place was given back");
        drop(of_one);
        let local = IpAddr::from([127, 0, 0, 1]);
        assert_eq!((0..40).filter_map(|_| places.enter(local)).count(), 40);
        assert!(places.lock().by_address.is_empty() && places.lock().strangers.is_empty());
    }

    #[test]
    fn strangers_make_room_for_strangers_and_for_nobody_else() {
        let places = Places::default();
        let known: Vec<_> = (0..100).filter_map(|number| places.enter(address(number))).collect();
        assert!(known[36..].iter().all(|visitor| visitor.let_in()));
        assert!(known[..36].iter().all(|visitor| sent_away(visitor) && !visitor.let_in()));
        let strangers: Vec<_> = (100..200).filter_map(|number| places.enter(address(number))).collect();
        assert_eq!(strangers.len(), 100, "everybody finds a place");
        assert!(strangers[..36].iter().all(|visitor| sent_away(visitor)));
        assert!(strangers[36..].iter().all(|visitor| !sent_away(visitor)));
        assert!(known[36..].iter().all(|visitor| !sent_away(visitor)));
        drop(known);
        drop(strangers);
        let taken = places.lock();
        assert_eq!((taken.let_in, taken.strangers.len(), taken.by_address.len()), (0, 0, 0));
    }

    #[test]
    fn those_who_were_let_in_are_bounded_too() {
        let places = Places::default();
        let local = IpAddr::from([127, 0, 0, 1]);
        let visitors: Vec<_> =
            (0..MOST_LET_IN + 3).filter_map(|_| places.enter(local)).map(|v| (v.let_in(), v)).collect();
        assert_eq!(visitors.iter().filter(|(let_in, _)| *let_in).count(), MOST_LET_IN);
    }
}
