/*!
The reasons that limited a GPU's clocks, as a set of words.
*/

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One reason why clocks are not as high as they could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The board or the module is at its power limit.
    PowerCap,
    /// Software lowers the clocks because the GPU or its memory is too hot.
    Thermal,
    /// Hardware halves the clocks, or worse, because the GPU is too hot.
    ThermalHardware,
    /// The power supply asks for lower clocks.
    PowerBrake,
    /// Hardware halves the clocks, or worse, for a reason that it does not name.
    HardwareSlowdown,
    /// A rail drew more current than it may (Jetson).
    OverCurrent,
    /// Another GPU of its group holds it back.
    SyncBoost,
    /// Someone has set lower clocks.
    ClocksSetting,
    /// A display asks for certain clocks.
    DisplaySetting,
}

impl Limit {
    /// All of them, in the order of messages.
    pub const ALL: [Self; 9] = [
        Self::PowerCap,
        Self::Thermal,
        Self::ThermalHardware,
        Self::PowerBrake,
        Self::HardwareSlowdown,
        Self::OverCurrent,
        Self::SyncBoost,
        Self::ClocksSetting,
        Self::DisplaySetting,
    ];

    /// The word that files carry.
    pub fn word(self) -> &'static str {
        match self {
            Self::PowerCap => "power_cap",
            Self::Thermal => "thermal",
            Self::ThermalHardware => "thermal_hw",
            Self::PowerBrake => "power_brake",
            Self::HardwareSlowdown => "hw_slowdown",
            Self::OverCurrent => "over_current",
            Self::SyncBoost => "sync_boost",
            Self::ClocksSetting => "clocks_setting",
            Self::DisplaySetting => "display_setting",
        }
    }

    /// Whether the GPU was slower than its settings allow; a setting is the owner's own choice.
    pub fn is_throttling(self) -> bool {
        !matches!(self, Self::ClocksSetting | Self::DisplaySetting)
    }
}

/// A set of [`Limit`]s; JSON has it as a list of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits(u16);

impl Limits {
    /// These limits.
    pub fn of(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self(limits.into_iter().fold(0, |set, limit| set | 1 << limit as u16))
    }

    /// Those of either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its members in the order of [`Limit::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Limit> {
        Limit::ALL.into_iter().filter(move |limit| self.0 & (1 << *limit as u16) != 0)
    }

    /// Those that make a GPU slower than its settings allow.
    #[must_use]
    pub fn throttling(self) -> Self {
        Self::of(self.iter().filter(|limit| limit.is_throttling()))
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The words with `+` between them; `none` for none.
    pub fn text(self) -> String {
        match self.is_empty() {
            true => "none".to_owned(),
            false => self.words().join("+"),
        }
    }

    fn words(self) -> Vec<&'static str> {
        self.iter().map(Limit::word).collect()
    }
}

impl Serialize for Limits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.words().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        let limit = |word: &String| {
            let found = Limit::ALL.into_iter().find(|limit| limit.word() == word);
            found.ok_or_else(|| D::Error::custom(format!("no limit is called {word:?}")))
        };
        words.iter().map(limit).collect::<Result<Vec<_>, _>>().map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_in_one_order_and_read_back() {
        let limits = Limits::of([Limit::ClocksSetting, Limit::Thermal, Limit::PowerCap]);
        assert_eq!(limits.text(), "power_cap+thermal+clocks_setting");
        assert_eq!(limits.throttling().text(), "power_cap+thermal");
        assert_eq!(Limits::default().text(), "none");
        let json = serde_json::to_string(&limits).unwrap();
        assert_eq!(json, r#"["power_cap","thermal","clocks_setting"]"#);
        assert_eq!(serde_json::from_str::<Limits>(&json).unwrap(), limits);
        assert!(serde_json::from_str::<Limits>(r#"["warm"]"#).is_err());
        for limit in Limit::ALL {
            assert_eq!(Limits::of([limit]).iter().collect::<Vec<_>>(), [limit]);
        }
    }
}
