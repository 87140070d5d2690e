//! Kartothek datasets: metadata, indices, dispatch, updates.
