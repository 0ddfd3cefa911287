"""How every command reads its options, tells what it found, and how it fails."""
