//! Two records against each other, case by case.
