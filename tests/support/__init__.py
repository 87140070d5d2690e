"""What several tests need: comparing tables, making random ones, finding the golden ones."""
