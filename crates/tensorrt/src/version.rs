/*!
The release that was opened, and its family: releases with one layout of vtables.

`getInferLibVersion()` counts differently by product: 8.6.1 reports 8601, 10.3.0 reports 100300,
TensorRT for RTX 1.7.1 reports 10701. The ranges do not meet, so the number alone is enough.
*/

use std::fmt;

use super::sys;

/// The supported releases, for error messages.
pub const SUPPORTED: &str = "TensorRT 8.5 and 8.6, 10.x, 11.x, TensorRT for RTX 1.3 and later 1.x";

/// A release of TensorRT or of TensorRT for RTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// TensorRT for RTX, which builds ahead of time for a list of GPUs and has version numbers of
    /// its own.
    pub rtx: bool,
    /// 8, 10, 11; 1 for RTX.
    pub major: i32,
    /// The second number.
    pub minor: i32,
    /// The third number.
    pub patch: i32,
}

/// Releases that share one layout of vtables; methods are only appended within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Family {
    /// 8.5 and 8.6: 32-bit extents, weakly typed, no progress monitor.
    Trt8 = sys::TRTDL_FAMILY_TRT8 as i32,
    /// 10.0 to 10.16 and later 10.x.
    Trt10 = sys::TRTDL_FAMILY_TRT10 as i32,
    /// 11.x: strongly typed only.
    Trt11 = sys::TRTDL_FAMILY_TRT11 as i32,
    /// TensorRT for RTX 1.3 and 1.4.
    Rtx13 = sys::TRTDL_FAMILY_RTX13 as i32,
    /// TensorRT for RTX 1.5 and later: strongly typed only.
    Rtx15 = sys::TRTDL_FAMILY_RTX15 as i32,
}

impl Version {
    /// From the number of `getInferLibVersion()`.
    pub fn from_raw(raw: i32) -> Self {
        match raw {
            100_000.. => {
                Self { rtx: false, major: raw / 10_000, minor: raw / 100 % 100, patch: raw % 100 }
            }
            10_000.. => {
                Self { rtx: true, major: raw / 10_000, minor: raw / 100 % 100, patch: raw % 100 }
            }
            _ => Self { rtx: false, major: raw / 1000, minor: raw / 100 % 10, patch: raw % 100 },
        }
    }

    /// From its display, "TensorRT 8.6.0", whatever follows it; none for other text.
    pub fn from_words(text: &str) -> Option<Self> {
        let (rtx, numbers) = match text.strip_prefix("TensorRT for RTX ") {
            Some(numbers) => (true, numbers),
            None => (false, text.strip_prefix("TensorRT ")?),
        };
        let mut numbers = numbers.split_whitespace().next()?.split('.').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { rtx, major: next()?, minor: next()?, patch: next()? })
    }

    /// The family of this release; none for a release that is not supported.
    ///
    /// A minor release newer than the newest known one has its family: methods are only appended
    /// within one.
    pub fn family(self) -> Option<Family> {
        match (self.rtx, self.major, self.minor) {
            (false, 8, 5..) => Some(Family::Trt8),
            (false, 10, _) => Some(Family::Trt10),
            (false, 11, _) => Some(Family::Trt11),
            (true, 1, 3..=4) => Some(Family::Rtx13),
            (true, 1, 5..) => Some(Family::Rtx15),
            _ => None,
        }
    }

    /// Whether its ONNX parser knows the operator LayerNormalization of opset 17: from 8.6 on.
    pub fn parses_layer_normalization(self) -> bool {
        self.family() != Some(Family::Trt8) || self.minor > 5
    }

    /// Whether it is newer than every release whose vtables were compared. It should work; nobody
    /// has run it.
    pub fn is_untried(self) -> bool {
        match self.family() {
            Some(Family::Trt8) => self.minor > 6,
            Some(Family::Trt10) => self.minor > 16,
            Some(Family::Trt11) => self.minor > 4,
            Some(Family::Rtx13) => false,
            Some(Family::Rtx15) => self.minor > 7,
            None => true,
        }
    }
}

impl Family {
    /// Whether networks take their types from the ONNX file alone: no precision flag, no pinned
    /// layer.
    pub fn is_strongly_typed_only(self) -> bool {
        matches!(self, Self::Trt11 | Self::Rtx15)
    }

    /// Whether it is TensorRT for RTX.
    pub fn is_rtx(self) -> bool {
        matches!(self, Self::Rtx13 | Self::Rtx15)
    }
}

impl Version {
    /// `TensorRT` or `TensorRT for RTX`.
    pub fn product(self) -> &'static str {
        if self.rtx { "TensorRT for RTX" } else { "TensorRT" }
    }

    /// `8.6.1`.
    pub fn numbers(self) -> String {
        format!("{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.product(), self.numbers())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(raw: i32) -> (String, Option<Family>) {
        let version = Version::from_raw(raw);
        (version.to_string(), version.family())
    }

    #[test]
    fn the_number_tells_product_release_and_layout() {
        assert_eq!(named(8503), ("TensorRT 8.5.3".into(), Some(Family::Trt8)));
        let parses = |raw| Version::from_raw(raw).parses_layer_normalization();
        assert_eq!([8502, 8600, 100_300, 10_300].map(parses), [false, true, true, true]);
        assert_eq!(named(8600), ("TensorRT 8.6.0".into(), Some(Family::Trt8)));
        assert_eq!(named(100_300), ("TensorRT 10.3.0".into(), Some(Family::Trt10)));
        assert_eq!(named(101_602), ("TensorRT 10.16.2".into(), Some(Family::Trt10)));
        assert_eq!(named(110_400), ("TensorRT 11.4.0".into(), Some(Family::Trt11)));
        assert_eq!(named(10_300), ("TensorRT for RTX 1.3.0".into(), Some(Family::Rtx13)));
        assert_eq!(named(10_400), ("TensorRT for RTX 1.4.0".into(), Some(Family::Rtx13)));
        assert_eq!(named(10_701), ("TensorRT for RTX 1.7.1".into(), Some(Family::Rtx15)));
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for raw in [8600, 8503, 100_300, 110_400, 10_300, 10_701] {
            let version = Version::from_raw(raw);
            assert_eq!(Version::from_words(&version.to_string()), Some(version));
        }
        let build = Version::from_words("TensorRT 8.6.0 (build 12)");
        assert_eq!(build, Some(Version::from_raw(8600)));
        for words in ["TensorRT", "TensorRT 8.6", "TensorRT 8.x.0", "ONNX Runtime 1.2.3", ""] {
            assert_eq!(Version::from_words(words), None, "{words}");
        }
    }

    #[test]
    fn unknown_majors_and_too_old_minors_have_no_layout() {
        for raw in [0, 7203, 8401, 9001, 10_200, 20_000, 90_300, 120_000, -1] {
            assert_eq!(Version::from_raw(raw).family(), None, "{raw}");
        }
    }

    #[test]
    fn a_newer_minor_is_taken_but_called_untried() {
        let newer = Version::from_raw(111_200);
        assert_eq!(newer.family(), Some(Family::Trt11));
        assert!(newer.is_untried() && !Version::from_raw(110_400).is_untried());
    }
}
