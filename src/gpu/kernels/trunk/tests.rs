//! How launches are divided, and that they are the sources' own.

use super::*;
