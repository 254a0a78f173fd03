//! Empty: the headers are what is needed.
