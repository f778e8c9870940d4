"""What agent clients say about their own tools, through hooks and plugins, and how it is recorded."""
