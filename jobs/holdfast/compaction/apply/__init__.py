"""Apply: carry an approved plan out, and put temporary settings back."""
