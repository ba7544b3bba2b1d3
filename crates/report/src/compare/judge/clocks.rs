/*!
Whether two sides ran at the same clocks.

Clocks that differ by chance falsify a ratio. A side that reaches the power limit in each long pass
has lower clocks by its own power: they are a part of its speed, whenever it is measured. The other
side must then have run as long, or it may have had clocks that it cannot hold.
*/

use crate::compare::thresholds::SPEED;
use vos::record::{Finding, Weight};
use vos::verdict::THRESHOLDS;

/// The clocks of one side.
#[derive(Clone, Debug)]
pub(super) struct Clocks<'a> {
    /// Name of the side.
    pub name: &'a str,
    /// Mean SM clock over all passes, MHz.
    pub mean_mhz: f64,
    /// Every pass has the speed that the GPU sustains at its power limit.
    pub power_limited: bool,
    /// Some pass has that speed.
    pub ever_limited: bool,
    /// Every pass took as long as one at the power limit must.
    pub long: bool,
    /// Someone had set lower clocks, by a reading of any pass.
    pub clocks_set: bool,
    /// The power limit of each round, W; `None`: the driver does not tell it.
    pub power_limits_w: Vec<Option<f64>>,
}

/// Clocks that are farther apart than allowed, or that one side may not hold. It is a note if the
/// lower one is its side's own.
pub(super) fn apart(a: &Clocks<'_>, b: &Clocks<'_>) -> Option<Finding> {
    let found =
        |weight, sentence| Some(Finding { code: "clocks_apart".to_owned(), sentence, weight });
    for (limited, other) in [(a, b), (b, a)] {
        // At any gap: it may be small by chance.
        if limited.ever_limited && !other.ever_limited && !other.long {
            let sentence = format!(
                "{} reached its power limit in long passes, and {} in shorter ones may have had \
                 clocks that it cannot hold; measure passes of at least {:.0} s of both",
                limited.name, other.name, THRESHOLDS.sustained_seconds
            );
            return found(Weight::Fault, sentence);
        }
    }
    let (low, high) = if a.mean_mhz < b.mean_mhz { (a, b) } else { (b, a) };
    let gap = (high.mean_mhz - low.mean_mhz) / high.mean_mhz;
    if gap <= SPEED.clock_gap {
        return None;
    }
    let told = format!(
        "the mean SM clock was {:.0} MHz for {} and {:.0} MHz for {}, {:.0} % apart",
        a.mean_mhz,
        a.name,
        b.mean_mhz,
        b.name,
        100.0 * gap
    );
    // Clocks that were set are nobody's own.
    let own = low.power_limited && !low.clocks_set && !high.clocks_set;
    match one_limit(low, high).filter(|_| own) {
        Some(limit) => found(
            Weight::Note,
            format!(
                "{told}; {} reached its power limit in every pass, and its clock is the one that \
                 it sustains there, so quote the ratio with this limit{limit}",
                low.name
            ),
        ),
        None => found(
            Weight::Fault,
            format!(
                "{told}, the limit is {:.0} %; lock it (nvidia-smi -lgc)",
                100.0 * SPEED.clock_gap
            ),
        ),
    }
}

/// The power limit as a part of a sentence, empty if no driver told it; `None` if limits differ or
/// only some are known: then the lower clock may be the lower limit's, and not the side's own.
fn one_limit(a: &Clocks<'_>, b: &Clocks<'_>) -> Option<String> {
    let mut limits = a.power_limits_w.iter().chain(&b.power_limits_w);
    let first = limits.next()?;
    let told = first.map_or_else(String::new, |limit| format!(" ({limit:.0} W)"));
    limits.all(|limit| limit == first).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_clock_is_a_sides_own_only_at_its_power_limit() {
        let clocks = |name, mean_mhz, power_limited, limit: Option<f64>| Clocks {
            name,
            mean_mhz,
            power_limited,
            ever_limited: power_limited,
            long: true,
            clocks_set: false,
            power_limits_w: vec![limit; 3],
        };
        let fast = |limited| clocks("fast", 1900.0, limited, Some(700.0));
        let slow = |limited, limit| clocks("slow", 1700.0, limited, limit);
        let set = |side: Clocks<'static>| Clocks { clocks_set: true, ..side };
        for (a, b, weight) in [
            (fast(false), slow(false, Some(700.0)), Weight::Fault),
            (fast(true), slow(false, Some(700.0)), Weight::Fault),
            (fast(false), slow(true, Some(700.0)), Weight::Note),
            (fast(false), slow(true, Some(500.0)), Weight::Fault),
            (fast(false), slow(true, None), Weight::Fault),
            (fast(false), set(slow(true, Some(700.0))), Weight::Fault),
            (set(fast(false)), set(slow(true, Some(700.0))), Weight::Fault),
            (set(fast(false)), slow(true, Some(700.0)), Weight::Fault),
        ] {
            let found = apart(&a, &b).unwrap();
            assert_eq!(
                (found.weight, apart(&b, &a).unwrap().weight),
                (weight, weight),
                "{found:?}"
            );
            let told = "was 1900 MHz for fast and 1700 MHz for slow, 11 % apart";
            assert!(found.sentence.contains(told), "{found:?}");
            assert_eq!(found.sentence.ends_with("(700 W)"), weight == Weight::Note);
        }
        let [a, b] = [("fast", 1900.0, false), ("slow", 1700.0, true)]
            .map(|(name, mhz, limited)| clocks(name, mhz, limited, None));
        let untold = apart(&a, &b).unwrap();
        assert!(untold.weight == Weight::Note && untold.sentence.ends_with("this limit"));
        // However near the clocks are.
        let short = Clocks { long: false, ..clocks("short", 1710.0, false, Some(700.0)) };
        for found in [apart(&short, &slow(true, None)), apart(&slow(true, None), &short)] {
            let found = found.unwrap();
            assert_eq!(found.weight, Weight::Fault);
            assert!(found.sentence.contains("and short in shorter ones may have had"), "{found:?}");
        }
        assert!(apart(&short, &slow(false, None)).is_none());
        let near = clocks("near", 1810.0, false, Some(700.0));
        assert!(apart(&fast(false), &near).is_none());
    }
}
